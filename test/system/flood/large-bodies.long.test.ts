import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { peakRssBytesOf } from "../../../bench/support/proc.ts";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall } from "../../fixtures/producer.ts";
import { useStack } from "../../fixtures/stack.ts";
import { send } from "../../support/http.ts";
import { untilDrained } from "../fleet/until-drained.ts";

const MIB = 2 ** 20;
const LARGE_BYTES = 25 * MIB;
const MIDDLE_BYTES = 300 * 1024;
const AT_ONCE = 10;
const SMALL_SENDERS = 4;
/** Additional bodies that wait in Redis for the producers. */
const MORE = 30;
const JOBS = 5;
/** Time that the runner takes for a large body. */
const LARGE_MS = 5000;
const PRODUCERS = 4;
/**
 * Large bodies that a producer holds at once: they may use half of its memory for bodies, and each uses 4/3 of its
 * stored size.
 */
const IN_FLIGHT_MAX = 3;

/** Memory limits of a gateway and a producer, which docs/sizing.md states. */
const GATEWAY_MIB = 800;
const PRODUCER_MIB = 512;

const runner = useFakeRunner();
/** Stack with the default memory settings. */
const stack = useStack(() => ({
  endpoints: [
    { path: "/large", job_id: 1, auth: "none", body_limit_bytes: LARGE_BYTES },
    { path: "/other", job_id: JOBS + 1, auth: "none" },
  ],
  postern: { runner: { url: runner.url, timeout_ms: 60_000 }, producer: { lock_ms: 70_000 } },
  producers: PRODUCERS,
  drainSecs: 0,
}));

const peakMibOf = ({ process }: Part) => peakRssBytesOf(process.pid) / MIB;

test(`a gateway accepts ten concurrent bodies of 25 MiB beside other calls within ${GATEWAY_MIB} MiB, and four producers inject each call once within ${PRODUCER_MIB} MiB each`, {
  timeout: 600_000,
}, async () => {
  const [gateway] = stack.gateways as [Part];
  const large = Buffer.alloc(LARGE_BYTES, "x");
  const middle = Buffer.alloc(MIDDLE_BYTES, "x");
  const accepted: string[] = [];
  const post = async (path: string, body: Buffer): Promise<void> => {
    const answer = await send(gateway.address, { path, body, timeoutMs: 120_000 });
    expect([answer.status, answer.text]).toEqual([202, expect.any(String)]);
    accepted.push(String(answer.json()["call_id"]));
  };
  await Promise.all(stack.producers.map((producer) => producer.kill("SIGTERM")));

  let isOver = false;
  const others = { accepted: 0 };
  const sendOthers = async (body: Buffer): Promise<void> => {
    for (; !isOver; others.accepted++) await post("/other", body);
  };
  const bodies = [middle, ...Array.from({ length: SMALL_SENDERS }, () => Buffer.from("x"))];
  const sending = Promise.all(bodies.map(sendOthers));
  await Promise.all(Array.from({ length: AT_ONCE }, () => post("/large", large))).finally(() => {
    isOver = true;
  });
  const othersMeanwhile = others.accepted;
  await sending;
  expect(othersMeanwhile, "calls that did not wait for the large ones").toBeGreaterThan(AT_ONCE);
  expect(gateway.process.events("redis.unresponsive")).toEqual([]);
  expect(peakMibOf(gateway)).toBeLessThan(GATEWAY_MIB);

  const enqueue = createEnqueue(stack.redis.partition);
  for (let i = 0; i < MORE; i++) {
    const call = aCall({ job_id: 1 + (i % JOBS), body: large });
    await enqueue(call, undefined, "large");
    accepted.push(call.id);
  }
  const inHand = { now: 0, most: 0 };
  runner.answer = async (offer) => {
    const isLarge = offer.body.length === LARGE_BYTES;
    offer.body = Buffer.alloc(0);
    if (!isLarge) return { status: 200 };
    inHand.most = Math.max(inHand.most, ++inHand.now);
    await delay(LARGE_MS);
    inHand.now -= 1;
    return { status: 200 };
  };
  await Promise.all(stack.producers.map((producer) => producer.restart()));
  const ended: string[] = [];
  for (const { process } of stack.producers) void process.exit.then(() => ended.push(process.name));
  await untilDrained(stack.redis, "webhook");
  expect(ended).toEqual([]);
  const offered = runner.offers.map(({ headers }) => String(headers["idempotency-key"]));
  expect(offered.sort()).toEqual(accepted.sort());
  expect(inHand.most).toBeLessThanOrEqual(PRODUCERS * IN_FLIGHT_MAX);
  for (const producer of stack.producers) expect(peakMibOf(producer)).toBeLessThan(PRODUCER_MIB);
});

test("docs/sizing.md states the most memory that large bodies use", () => {
  const sizing = readFileSync(new URL("../../../docs/sizing.md", import.meta.url), "utf8");
  expect(sizing).toContain(`at most ${GATEWAY_MIB} MiB`);
  expect(sizing).toContain(`at most ${PRODUCER_MIB} MiB`);
});
