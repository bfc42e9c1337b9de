import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady } from "../../../shared/dev/stack.ts";
import { delay } from "../../../shared/time/clock.ts";
import { useStack } from "../../fixtures/stack.ts";
import { send } from "../../support/http.ts";
import { findNginx, type Nginx, startNginx } from "../../support/nginx.ts";
import { untilDrained } from "./until-drained.ts";

/** How often each process is restarted. A long run has 20. */
const RESTARTS = Number(process.env["POSTERN_TEST_RESTARTS"] ?? 2);
/** Pauses of a sender, so that connections are idle for all times around those at which a gateway closes them. */
const PAUSES_MS = [0, 0, 0, 0, 5, 5, 20, 20, 100, 500, 1500, 2500];
const PATH = "/hooks/open";

const nginxProgram = findNginx();

describe.skipIf(nginxProgram === undefined)(
  "a fleet that is restarted under load, process by process",
  () => {
    const stack = useStack(() => ({
      endpoints: [{ path: PATH, job_id: 1, auth: "none" }],
      gateways: 2,
      producers: 2,
      drainSecs: 3,
    }));
    let nginx: Nginx;

    beforeAll(async () => {
      nginx = await startNginx(
        nginxProgram ?? "",
        stack.gateways.map(({ address }) => address),
      );
    });

    afterAll(() => nginx?.stop());

    async function restart(parts: readonly Part[]): Promise<void> {
      for (let i = 0; i < RESTARTS; i++) {
        for (const part of parts) {
          expect(await part.kill("SIGTERM")).toEqual({ code: 0, signal: null });
          await part.restart();
          await untilReady(part);
        }
      }
    }

    test("fails no request of any sender, through nginx or directly, and runs each call once", {
      timeout: 60_000 + 2 * RESTARTS * 15_000,
    }, async () => {
      const callIds: string[] = [];
      const failures: string[] = [];
      let isOver = false;

      /** Sends call after call over a connection that it keeps. */
      async function sendOn(pauseMs: number, post: (agent: Agent, body: string) => ReturnType<typeof send>) {
        const agent = new Agent({ keepAlive: true, maxSockets: 1 });
        for (let i = 0; !isOver; i++) {
          const answer = await post(agent, `${pauseMs} ${i}`).catch((error: Error) => error);
          if ("status" in answer && answer.status === 202) callIds.push(String(answer.json()["call_id"]));
          else failures.push("status" in answer ? `${answer.status} ${answer.text}` : String(answer));
          await delay(pauseMs);
        }
        agent.destroy();
      }

      const throughNginx = (agent: Agent, body: string) => send(nginx.address, { path: PATH, body, agent });
      const senders = PAUSES_MS.map((pauseMs) => sendOn(pauseMs, throughNginx));
      await Promise.all([restart(stack.gateways), restart(stack.producers), restart([stack.runner])]);
      isOver = true;
      await Promise.all(senders);

      console.log(`${callIds.length} answered 202, ${failures.length} failed`);
      expect(failures).toEqual([]);
      const counts = await untilDrained(stack.redis.url, "webhook");
      expect(counts).toMatchObject({ waiting: 0, active: 0, delayed: 0, failed: 0 });
      expect(stack.effectsOf(callIds).filter((times) => times !== 1)).toEqual([]);
    });
  },
);
