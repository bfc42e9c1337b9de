import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import {
  answerJson,
  type FaultyFacilitator,
  payingClient,
  startFaultyFacilitator,
  TRANSACTION,
} from "./faulty-facilitator.ts";

const KIND = { scheme: "exact", network: "eip155:84532" };
const REQUEST: FacilitatorRequest = { x402Version: 2, paymentPayload: {}, paymentRequirements: {} };

const ends = useEnds();

function clientOf(all: readonly FaultyFacilitator[], verifyTimeoutMs: number, waitMs?: number) {
  const facilitators = new Facilitators({
    facilitators: all.map(({ url }) => ({ url, headers: {} })),
    authorize: undefined,
    verifyTimeoutMs,
    settleTimeoutMs: 20_000,
    clock: systemClock,
    log: recordingLog(),
    ...(waitMs !== undefined && { waitMs }),
  });
  for (const its of all) ends.defer(() => its.close());
  ends.defer(() => facilitators.close());
  void facilitators.start();
  return facilitators;
}

/** Starts a facilitator that answers no verification until the test releases it, and a client of it. */
async function slowFacilitator(waitMs?: number) {
  const its = await startFaultyFacilitator();
  const held: ServerResponse[] = [];
  its.on("verify", (_req, res) => void held.push(res));
  const facilitators = clientOf([its], 20_000, waitMs);
  await eventually("it is known", () => facilitators.available()[0]?.ok);
  return {
    facilitators,
    url: its.url,
    held,
    answerVerifies(): void {
      const answer = answerJson({ isValid: true });
      its.on("verify", answer);
      for (const res of held) answer(res.req, res);
    },
  };
}

const payerOf = (index: number) => `payer ${index}`;

test("hundreds of slow verifications delay no settlement; verifications above the limit wait, and are then refused with a retry time", async () => {
  const { facilitators, url, held, answerVerifies } = await slowFacilitator();
  const verifies = Promise.allSettled(
    Array.from({ length: 512 }, (_, index) =>
      facilitators.judge(REQUEST, KIND, payingClient(payerOf(index))),
    ),
  );
  await eventually("they are in flight", () => held.length >= 128);

  const settled = await Promise.all(Array.from({ length: 20 }, () => facilitators.settle(REQUEST, url)));
  expect(settled).toEqual(Array(20).fill({ kind: "settled", transaction: TRANSACTION }));

  await expect(facilitators.judge(REQUEST, KIND, payingClient("one more"))).rejects.toMatchObject({
    code: "payment.unavailable",
  });
  expect(held).toHaveLength(128);
  answerVerifies();
  const results = await verifies;
  const refused = results.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  expect(refused).toHaveLength(512 - 128);
  expect(refused[0]).toMatchObject({ code: "payment.unavailable", retryAfterMs: expect.any(Number) });
  expect((await facilitators.judge(REQUEST, KIND, payingClient(payerOf(0)))).verified.kind).toBe("valid");
  expect(facilitators.available()).toMatchObject([{ ok: true, breaker: "closed" }]);
});

test("an address with too many waiting verifications is refused, and the next slot goes to another address", async () => {
  const { facilitators, held, answerVerifies } = await slowFacilitator(60_000);
  const greedy = Array.from({ length: 400 }, () => facilitators.judge(REQUEST, KIND, payingClient("greedy")));
  const his = Promise.allSettled(greedy);
  await eventually("they are in flight", () => held.length >= 128);
  const other = facilitators.judge(REQUEST, KIND, payingClient("another"));
  await expect(facilitators.judge(REQUEST, KIND, payingClient("greedy"))).rejects.toMatchObject({
    code: "request.rate_limited",
    retryAfterMs: expect.any(Number),
  });
  answerVerifies();
  expect((await other).verified.kind).toBe("valid");
  const refused = (await his).flatMap((each) => (each.status === "rejected" ? [each.reason.code] : []));
  expect(refused).toEqual(Array(400 - 128 - 256).fill("request.rate_limited"));
});

test("a facilitator that hangs on one chain takes no slot from payments for another facilitator", async () => {
  const [hanging, healthy] = [await startFaultyFacilitator(), await startFaultyFacilitator()];
  const held: ServerResponse[] = [];
  const kindOn = (network: string) => ({ scheme: "exact", network });
  hanging.on("verify", (_req, res) => void held.push(res));
  hanging.on("supported", answerJson({ kinds: [{ x402Version: 2, ...kindOn("eip155:1") }] }));
  const both = ["eip155:1", "eip155:2"].map((network) => ({ x402Version: 2, ...kindOn(network) }));
  healthy.on("supported", answerJson({ kinds: both }));
  const facilitators = clientOf([hanging, healthy], 20_000);
  await eventually("both are known", () => facilitators.available().every(({ ok }) => ok));

  const stuck = Array.from({ length: 128 }, (_, i) =>
    facilitators.judge(REQUEST, kindOn("eip155:1"), payingClient(payerOf(i))),
  );
  for (const one of stuck) one.catch(() => {});
  await eventually("they are in flight", () => held.length === 128);

  const startedAt = performance.now();
  expect((await facilitators.judge(REQUEST, kindOn("eip155:2"), payingClient("a"))).url).toBe(healthy.url);
  expect((await facilitators.judge(REQUEST, kindOn("eip155:1"), payingClient("b"))).url).toBe(healthy.url);
  expect(performance.now() - startedAt).toBeLessThan(1500);
  expect(facilitators.available()).toMatchObject([{ ok: true }, { ok: true }]);
});

test("settlements that hang keep no other settlement waiting", async () => {
  const its = await startFaultyFacilitator();
  const hanging: ServerResponse[] = [];
  its.on("settle", (_req, res) => void hanging.push(res));
  const facilitators = clientOf([its], 5000);
  for (let i = 0; i < 200; i++) void facilitators.settle(REQUEST, its.url);
  await eventually("they are in flight", () => hanging.length === 200);
  its.on("settle", answerJson({ success: true, transaction: TRANSACTION }));
  expect((await facilitators.settle(REQUEST, its.url)).kind).toBe("settled");
});
