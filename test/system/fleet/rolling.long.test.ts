import { Agent } from "node:http";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { ENGINE, wireRequest } from "../../fixtures/pricing.ts";
import { CONSOLE_TOKEN, useStack } from "../../fixtures/stack.ts";
import { signOffer } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { type Answer, send } from "../../support/http.ts";
import { needs } from "../../support/needs.ts";
import { type Nginx, startNginx } from "../../support/nginx.ts";
import { reflectedClient } from "../../support/reflected.ts";
import { sellingToAllKinds } from "../payers.ts";
import { untilDrained } from "./until-drained.ts";

/** How often each process is restarted. A long run has 20, and takes some minutes. */
const RESTARTS = Number(process.env["POSTERN_TEST_RESTARTS"] ?? 3);
/** Pauses of a sender, so that connections are idle for all times around those at which a gateway closes them. */
const PAUSES_MS = [0, 0, 5, 20, 100, 500, 1500, 2500];
const BUYERS = 3;
const HOOK = "/hooks/open";
const JOB = "/x402/jobs/1/1";

describe("a fleet that is restarted under load, process by process", needs("nginx"), () => {
  const devnet = useDevnet();
  const stack = useStack(() => ({
    endpoints: [{ path: HOOK, job_id: 1, auth: "none" }],
    x402: sellingToAllKinds(devnet, { settle_timeout_secs: 20 }),
    gateways: 2,
    producers: 2,
    pricing: 2,
    consoles: 2,
    drainSecs: 5, // the default; nginx passes a gateway over for up to 2 s, and until it has answered one request
  }));
  let before: Record<"webhooks" | "x402" | "console", Nginx>;

  beforeAll(async () => {
    const start = (parts: readonly Part[]) => startNginx(parts.map(({ address }) => address));
    const [webhooks, x402, console] = await Promise.all([
      start(stack.gateways),
      start(stack.x402),
      start(stack.consoles),
    ]);
    before = { webhooks, x402, console };
    await Promise.all(stack.x402.map(untilSelling));
  });

  afterAll(() => Promise.all(Object.values(before ?? {}).map((nginx) => nginx.stop())));

  /** The next one of a kind is restarted once the one before is ready. */
  async function restart(parts: readonly Part[]): Promise<void> {
    for (let i = 0; i < RESTARTS; i++) {
      for (const part of parts) {
        expect(await part.kill("SIGTERM")).toEqual({ code: 0, signal: null });
        await part.restart();
        await untilReady(part);
      }
    }
  }

  test("fails no request of a sender, a buyer or an operator through nginx, nor of a client of the pricing engine, and runs each call once", {
    timeout: 60_000 + 2 * RESTARTS * 15_000,
  }, async () => {
    const callIds: string[] = [];
    const failures: string[] = [];
    const done = { delivered: 0, bought: 0, repeated: 0, quoted: 0, shown: 0 };
    let isOver = false;

    /** Does the work again and again, over one connection that it keeps. */
    async function repeat(pauseMs: number, work: (agent: Agent, i: number) => Promise<unknown>) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let i = 0; !isOver; i++) {
        await work(agent, i).catch((error: Error) => failures.push(error.message));
        await delay(pauseMs);
      }
      agent.destroy();
    }

    function accepted(answer: Answer, expected: number): Answer {
      if (answer.status !== expected) throw new Error(`${answer.status} ${answer.text}`);
      return answer;
    }

    const deliver = (pauseMs: number) =>
      repeat(pauseMs, async (agent, i) => {
        const answer = await send(before.webhooks.address, { path: HOOK, body: `${pauseMs} ${i}`, agent });
        callIds.push(String(accepted(answer, 202).json()["call_id"]));
        done.delivered += 1;
      });

    const payers = await Promise.all(Array.from({ length: BUYERS }, () => newPayer(devnet, 10n ** 15n)));
    const buy = (payer: (typeof payers)[number]) =>
      repeat(20, async (agent, i) => {
        const post = (headers = {}) =>
          send(before.x402.address, { path: JOB, headers, body: `bought ${i}`, agent });
        const paid = await signOffer(accepted(await post(), 402), { payer }, devnet.token.toLowerCase());
        const id = accepted(await post(paid), 202).json()["call_id"];
        callIds.push(String(id));
        done.bought += 1;
        expect(accepted(await post(paid), 202).json()["call_id"]).toBe(id);
        done.repeated += 1;
      });

    const look = (path: string) =>
      repeat(50, async (agent) => {
        const headers = { Authorization: `Bearer ${CONSOLE_TOKEN}` };
        accepted(await send(before.console.address, { method: "GET", path, headers, agent }), 200);
        done.shown += 1;
      });

    const engines = reflectedClient(`ipv4:${stack.pricing.map(({ address }) => address).join(",")}`);
    const quote = () =>
      repeat(50, async () => {
        const now = String(Math.floor(Date.now() / 1000));
        const asked = wireRequest({ service_id: "1", job_index: 1, challenge_timestamp: now });
        const { code, details } = await engines.call(ENGINE, "GetJobPrice", asked);
        if (code !== status.OK) throw new Error(`${status[code]} ${details}`);
        done.quoted += 1;
      });

    const clients = [
      ...PAUSES_MS.map(deliver),
      ...payers.map(buy),
      ...["/api/v1/overview", "/api/v1/jobs"].map(look),
      quote(),
    ];
    const kinds = [stack.gateways, stack.x402, stack.consoles, stack.pricing, stack.producers];
    await Promise.all([...kinds.map(restart), restart([stack.runner])]);
    isOver = true;
    await Promise.all(clients);
    engines.close();

    console.log(`${JSON.stringify(done)}, ${failures.length} failed`);
    const said = Object.values(before).map((nginx) => nginx.tail());
    expect(failures, said.join("\n")).toEqual([]);
    for (const origin of ["webhook", "x402"] as const) {
      const counts = await untilDrained(stack.redis, origin);
      expect(counts).toMatchObject({ waiting: 0, active: 0, delayed: 0, failed: 0 });
    }
    expect(stack.effectsOf(callIds).filter((times) => times !== 1)).toEqual([]);
    expect(stack.effects(), "no job of nobody").toHaveLength(callIds.length);
    const charges = await devnet.chain.transfers(devnet.seller);
    expect(charges).toHaveLength(done.bought);
  });
});
