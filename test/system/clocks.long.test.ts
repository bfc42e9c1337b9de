import { describe, expect, test } from "vitest";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { keys } from "../fixtures/redis.ts";
import { useStack } from "../fixtures/stack.ts";
import { idIn, signOffer } from "../fixtures/x402.ts";
import { clockAhead } from "../support/clock-ahead.ts";
import { newPayer } from "../support/devnet.ts";
import { type Answer, send } from "../support/http.ts";
import { sellingToAllKinds } from "./payers.ts";

/** Long enough for a busy machine, and short compared with the two hours by which a clock is wrong. */
const SOON_MS = 60_000;
const TWO_HOURS_MS = 7_200_000;
const WRONG: [string, number][] = [
  ["ahead", TWO_HOURS_MS],
  ["behind", -TWO_HOURS_MS],
];
const PATH = "/x402/jobs/1/1";

const devnet = useDevnet();
/** A runner that has job 3, and fails on command. */
const failing = useFakeRunner();
const stack = useStack(() => ({
  endpoints: [
    { path: "/hooks/runs", job_id: 1, auth: "none" },
    { path: "/hooks/fails", job_id: 3, auth: "none" },
  ],
  postern: {
    runners: { failing: { url: failing.url, timeout_ms: 2000 } },
    jobs: { "0/3": { runner: "failing" } },
  },
  // With a wrong clock, a gateway sees an authorization of three hours as one of one or five hours.
  x402: sellingToAllKinds(devnet, { payment_window_secs_max: 86_400 }),
  producers: 2,
  drainSecs: 0.1,
}));

async function deliver(path: string): Promise<string> {
  const answer = await send((stack.gateways[0] as Part).address, { path, body: "hello" });
  expect(answer.status).toBe(202);
  return idIn(answer);
}

async function checksOf({ opsAddress = "" }: Part): Promise<Record<string, unknown>> {
  return (await send(opsAddress, { method: "GET", path: "/readyz" })).json();
}

async function restart(part: Part, env: NodeJS.ProcessEnv): Promise<void> {
  await part.restart(env);
  await untilReady(part);
}

/** Restarts these parts with the right clock. Only the long run has tests after this. */
async function putRight(...parts: readonly Part[]): Promise<void> {
  await Promise.all(parts.map((part) => restart(part, {})));
}

/** Pays for a challenge as a buyer would, with three hours to settle the payment. */
async function payFor(challenge: Answer, payer: Awaited<ReturnType<typeof newPayer>>) {
  const validBefore = BigInt(Math.floor(Date.now() / 1000) + 3 * 3600);
  return signOffer(challenge, { payer, validBefore }, devnet.token.toLowerCase());
}

describe.each(WRONG)("with a clock that is two hours %s", (_, ms) => {
  const [one, other] = [() => stack.producers[0] as Part, () => stack.producers[1] as Part];

  test("a gateway and a producer run calls at once, and report how far their clock is from Redis'", {
    timeout: 120_000,
  }, async () => {
    const gateway = stack.gateways[0] as Part;
    await other().kill("SIGKILL");
    await Promise.all([restart(gateway, clockAhead(ms)), restart(one(), clockAhead(ms))]);
    const id = await deliver("/hooks/runs");
    await eventually("its job has run", () => stack.effectsOf([id])[0] === 1, SOON_MS);

    for (const part of [gateway, one()]) {
      expect(Math.abs(Number((await checksOf(part))["clock_ahead_ms"]) - ms)).toBeLessThan(5000);
      const metrics = await send(part.opsAddress ?? "", { method: "GET", path: "/metrics" });
      const seconds = /^postern_clock_ahead_seconds (.*)$/m.exec(metrics.text)?.[1];
      expect(Math.abs(Number(seconds) - ms / 1000)).toBeLessThan(5);
    }
    await putRight(gateway, other());
  });

  test("if a producer dies after a failed attempt, another producer repeats the attempt after its backoff", {
    timeout: 120_000,
  }, async () => {
    await other().kill("SIGKILL");
    await restart(one(), clockAhead(ms));
    failing.answer = () => ({ status: 500 });
    const id = await deliver("/hooks/fails");
    await one().process.waitForEvent("call.delayed", { where: ({ callId }) => callId === id });
    await one().kill("SIGKILL");
    failing.answer = () => ({ status: 200 });
    await restart(other(), {});
    await other().process.waitForEvent("call.injected", {
      where: ({ callId }) => callId === id,
      deadlineMs: SOON_MS,
    });
    await restart(one(), {});
  });

  test("two payment gateways sell, and each accepts the other's offers", {
    timeout: 120_000,
  }, async () => {
    const [wrong, right] = stack.x402 as [Part, Part];
    await restart(wrong, clockAhead(ms));
    await untilSelling(wrong);
    for (const [asked, paid] of [
      [wrong, right],
      [right, wrong],
    ] as const) {
      const payer = await newPayer(devnet);
      const challenge = await send(asked.address, { path: PATH, body: "" });
      const answer = await send(paid.address, {
        ...{ path: PATH, body: "hello" },
        headers: await payFor(challenge, payer),
      });
      expect([answer.status, answer.text]).toEqual([202, expect.anything()]);
      const id = idIn(answer);
      await eventually("its job has run", () => stack.effectsOf([id])[0] === 1, SOON_MS);
    }
    await restart(wrong, {});
  });

  test("a payment gateway decides open payments in time, both its own and another gateway's", {
    timeout: 180_000,
  }, async () => {
    const [wrong, right] = stack.x402 as [Part, Part];
    await restart(wrong, clockAhead(ms));
    await Promise.all([untilSelling(wrong), untilSelling(right)]);
    const open = await Promise.all(
      [wrong, right].map(async (gateway) => {
        const payer = await newPayer(devnet);
        const challenge = await send(right.address, { path: PATH, body: "" });
        const headers = await payFor(challenge, payer);
        await devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
        const answer = await send(gateway.address, { path: PATH, body: "hello", headers });
        expect(answer.status).toBe(503);
        return idIn(answer);
      }),
    );
    // The gateway with the wrong clock must do this alone.
    await right.kill("SIGKILL");
    await eventually("their jobs have run", () => stack.effectsOf(open).every((runs) => runs === 1), SOON_MS);
    const due = await Promise.all(open.map((id) => stack.redis.client.zscore(keys.paymentsDue, id)));
    for (const at of due) if (at !== null) expect(Math.abs(Number(at) - Date.now())).toBeLessThan(3_600_000);
    await putRight(right, wrong);
  });
});
