import { Agent } from "node:http";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { ENGINE, wireRequest } from "../../fixtures/pricing.ts";
import { CONSOLE_TOKEN, useStack } from "../../fixtures/stack.ts";
import { signOffer } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { type Answer, send } from "../../support/http.ts";
import { needs } from "../../support/needs.ts";
import { type Nginx, startExample, startNginx } from "../../support/nginx.ts";
import { reflectedClient } from "../../support/reflected.ts";
import { linkTo, type ReleaseLink, releaseIn, releaseNamed, THIS_RELEASE } from "../../support/releases.ts";
import type { Payer } from "../../support/sign-payment.ts";
import { sellingToAllKinds } from "../payers.ts";
import { untilDrained } from "./until-drained.ts";

/** Restarts of each process, including the upgrade. Twenty take over ten minutes of both cores of a small machine. */
const RESTARTS = Number(process.env["POSTERN_TEST_RESTARTS"] ?? 5);
/** Directory of an older build with the same layout. By default, this build with another version number. */
const OLDER = process.env["POSTERN_TEST_OLDER"];
/** Longer than nginx avoids a gateway that has refused a connection, and than HAProxy needs to notice a drain. */
const DRAIN_SECS = 3;
/**
 * Pauses of a sender. They cover idle times below and above those at which a gateway or a proxy closes a connection.
 */
const PAUSES_MS = [20, 100, 500, 1000, 1500, 2500];
const BUYERS = 2;
const HOOK = "/hooks/open";
const JOB = "/x402/jobs/1/1";

describe(
  "a fleet behind nginx and HAProxy that is restarted under load, one process at a time",
  needs("nginx", "haproxy"),
  () => {
    const devnet = useDevnet();
    const links = new Map<string, ReleaseLink>();
    let older: string;
    const stack = useStack(() => {
      older = OLDER ?? releaseNamed("0.0.1");
      return {
        endpoints: [{ path: HOOK, job_id: 1, auth: "none" }],
        x402: sellingToAllKinds(devnet, { settle_timeout_secs: 20 }),
        postern: { http: { trusted_proxies: ["127.0.0.1"] } },
        gateways: 2,
        producers: 2,
        pricing: 2,
        consoles: 2,
        drainSecs: DRAIN_SECS,
        entryOf(part) {
          const link = linkTo(older);
          links.set(part, link);
          return link.entry;
        },
      };
    });
    /** Proxies: the first three are in front of the gateways, and the last one is in front of the consoles. */
    let before: Record<"compose" | "nginx" | "haproxy" | "console", Nginx>;

    beforeAll(async () => {
      const addressesOf = (parts: readonly Part[]) => parts.map(({ address }) => address);
      const [gateways, x402] = [addressesOf(stack.gateways), addressesOf(stack.x402)];
      const [compose, nginx, haproxy, console] = await Promise.all([
        startNginx(gateways),
        startExample("nginx", gateways, x402),
        startExample("haproxy", gateways, x402),
        startNginx(addressesOf(stack.consoles)),
      ]);
      before = { compose, nginx, haproxy, console };
      await Promise.all(stack.x402.map(untilSelling));
    });

    afterAll(() => Promise.all(Object.values(before ?? {}).map((proxy) => proxy.stop())));

    /** Restarts these processes this many times. Each restart waits until the previous process is ready. */
    async function restart(parts: readonly Part[], times = 1): Promise<void> {
      for (let i = 0; i < times; i++) {
        for (const part of parts) {
          expect(await part.kill("SIGTERM")).toEqual({ code: 0, signal: null });
          await part.restart();
          await untilReady(part);
        }
      }
    }

    /** Restarts all processes. Processes of different kinds do not wait for each other. */
    async function restartAll(times: number): Promise<void> {
      const { gateways, x402, producers, consoles, pricing, runner } = stack;
      await Promise.all(
        [gateways, x402, producers, consoles, pricing, [runner]].map((parts) => restart(parts, times)),
      );
    }

    /** Replaces all processes by those of this release, in the order of docs/upgrade.md. */
    async function upgrade(): Promise<void> {
      const { gateways, x402, producers, consoles, pricing, runner } = stack;
      for (const link of links.values()) link.lead(THIS_RELEASE);
      await restart(producers);
      await Promise.all([gateways, x402].map((parts) => restart(parts)));
      await Promise.all([consoles, pricing, [runner]].map((parts) => restart(parts)));
    }

    /** Returns the releases of all processes except the runner, which belongs to the test. */
    async function releases(): Promise<string[]> {
      const headers = { Authorization: `Bearer ${CONSOLE_TOKEN}` };
      const path = "/api/v1/overview";
      const answer = await send(before.console.address, { method: "GET", path, headers });
      const { processes } = answer.json<{ processes: { kind: string; version: string }[] }>();
      return processes.filter(({ kind }) => kind !== "runner").map(({ version }) => version);
    }

    const untilAllAre = (release: string) =>
      eventually(`all processes are of release ${release}`, async () => {
        const seen = await releases();
        return seen.length === links.size && seen.every((each) => each === release);
      });

    test(`fails no request of a sender, a buyer, an operator or a pricing client in ${RESTARTS} restarts of each process, one of which is an upgrade, and runs each call once`, {
      timeout: 120_000 + 2 * RESTARTS * 15_000,
    }, async () => {
      const callIds: string[] = [];
      const failures: string[] = [];
      const done = { delivered: 0, bought: 0, repeated: 0, quoted: 0, shown: 0 };
      let isOver = false;

      /** Repeats the work over one kept connection. */
      async function repeat(
        name: string,
        pauseMs: number,
        work: (agent: Agent, i: number) => Promise<unknown>,
      ) {
        const agent = new Agent({ keepAlive: true, maxSockets: 1 });
        for (let i = 0; !isOver; i++) {
          await work(agent, i).catch((error: Error) =>
            failures.push(`${new Date().toISOString()} ${name}: ${error.message}`),
          );
          await delay(pauseMs);
        }
        agent.destroy();
      }

      function accepted(answer: Answer, expected: number): Answer {
        if (answer.status !== expected) throw new Error(`${answer.status} ${answer.text}`);
        return answer;
      }

      const deliver = (proxy: "compose" | "nginx" | "haproxy", pauseMs: number) =>
        repeat(`a sender by ${proxy}`, pauseMs, async (agent, i) => {
          const body = `${proxy} ${pauseMs} ${i}`;
          const answer = await send(before[proxy].address, { path: HOOK, body, agent });
          callIds.push(String(accepted(answer, 202).json()["call_id"]));
          done.delivered += 1;
        });

      const buy = (proxy: "nginx" | "haproxy", payer: Payer) =>
        repeat(`a buyer by ${proxy}`, 50, async (agent, i) => {
          const post = (headers = {}) =>
            send(before[proxy].address, { path: JOB, headers, body: `bought ${i}`, agent });
          const paid = await signOffer(accepted(await post(), 402), { payer }, devnet.token.toLowerCase());
          const id = accepted(await post(paid), 202).json()["call_id"];
          callIds.push(String(id));
          done.bought += 1;
          expect(accepted(await post(paid), 202).json()["call_id"]).toBe(id);
          done.repeated += 1;
        });

      const look = (path: string) =>
        repeat("an operator", 50, async (agent) => {
          const headers = { Authorization: `Bearer ${CONSOLE_TOKEN}` };
          accepted(await send(before.console.address, { method: "GET", path, headers, agent }), 200);
          done.shown += 1;
        });

      const engines = reflectedClient(`ipv4:${stack.pricing.map(({ address }) => address).join(",")}`);
      const quote = () =>
        repeat("a client of the pricing engine", 50, async () => {
          const now = String(Math.floor(Date.now() / 1000));
          const asked = wireRequest({ service_id: "1", job_index: 1, challenge_timestamp: now });
          const { code, details } = await engines.call(ENGINE, "GetJobPrice", asked);
          if (code !== status.OK) throw new Error(`${status[code]} ${details}`);
          done.quoted += 1;
        });

      const buyBy = async (proxy: "nginx" | "haproxy") => buy(proxy, await newPayer(devnet, 10n ** 15n));
      await untilAllAre(releaseIn(older));
      const clients = [
        ...(["compose", "nginx", "haproxy"] as const).flatMap((proxy) =>
          PAUSES_MS.map((pauseMs) => deliver(proxy, pauseMs)),
        ),
        ...Array.from({ length: BUYERS }, () => [buyBy("nginx"), buyBy("haproxy")]).flat(),
        ...["/api/v1/overview", "/api/v1/jobs"].map(look),
        quote(),
      ];
      const half = Math.floor((RESTARTS - 1) / 2);
      await restartAll(half);
      await upgrade();
      await untilAllAre(releaseIn(THIS_RELEASE));
      await restartAll(RESTARTS - 1 - half);
      isOver = true;
      await Promise.all(clients);
      engines.close();

      console.log(`${JSON.stringify(done)}, ${failures.length} failed`);
      const logs = Object.values(before).map((proxy) => proxy.tail());
      expect(failures, logs.join("\n")).toEqual([]);
      for (const origin of ["webhook", "x402"] as const) {
        const counts = await untilDrained(stack.redis, origin);
        expect(counts).toMatchObject({ waiting: 0, active: 0, delayed: 0, failed: 0 });
      }
      expect(stack.effectsOf(callIds).filter((times) => times !== 1)).toEqual([]);
      expect(stack.effects(), "no job of nobody").toHaveLength(callIds.length);
      const charges = await devnet.chain.transfers(devnet.seller);
      expect(charges).toHaveLength(done.bought);
    });
  },
);
