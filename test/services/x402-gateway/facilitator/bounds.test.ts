import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createFacilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { systemClock } from "../../../../shared/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import { answerJson, startFaultyFacilitator, TRANSACTION } from "./faulty-facilitator.ts";

const KIND = { scheme: "exact", network: "eip155:84532" };
const REQUEST: FacilitatorRequest = { x402Version: 2, paymentPayload: {}, paymentRequirements: {} };

const ends = useEnds();

/** A facilitator that answers no verify until it is told to, and its client. */
async function slowFacilitator() {
  const its = await startFaultyFacilitator();
  const held: ServerResponse[] = [];
  its.on("verify", (_req, res) => void held.push(res));
  const facilitators = createFacilitators({
    urls: [its.url],
    headers: {},
    verifyTimeoutMs: 20_000,
    settleTimeoutMs: 2000,
    clock: systemClock,
    log: recordingLog(),
  });
  ends.defer(() => its.close());
  ends.defer(() => facilitators.close());
  facilitators.start();
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

test("five hundred slow verifies keep no settlement waiting; those over the bound are told to come back", async () => {
  const { facilitators, url, held, answerVerifies } = await slowFacilitator();
  const verifies = Promise.allSettled(Array.from({ length: 512 }, () => facilitators.verify(REQUEST, KIND)));
  await eventually("they are under way", () => held.length >= 128);

  const settled = await Promise.all(Array.from({ length: 20 }, () => facilitators.settle(REQUEST, url)));
  expect(settled).toEqual(Array(20).fill({ kind: "settled", transaction: TRANSACTION }));

  answerVerifies();
  const results = await verifies;
  const refused = results.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  expect(refused).toHaveLength(512 - 128);
  expect(refused[0]).toMatchObject({ code: "payment.unavailable", retryAfterMs: expect.any(Number) });
  expect(held).toHaveLength(128);
  expect((await facilitators.verify(REQUEST, KIND)).verified.kind).toBe("valid");
  expect(facilitators.available()).toMatchObject([{ ok: true }]);
});

test("settlements that hang keep no other settlement waiting", async () => {
  const its = await startFaultyFacilitator();
  ends.defer(() => its.close());
  const hanging: ServerResponse[] = [];
  its.on("settle", (_req, res) => void hanging.push(res));
  const common = { headers: {}, verifyTimeoutMs: 5000, clock: systemClock, log: recordingLog() };
  const facilitators = createFacilitators({ urls: [its.url], settleTimeoutMs: 20_000, ...common });
  ends.defer(() => facilitators.close());
  for (let i = 0; i < 200; i++) void facilitators.settle(REQUEST, its.url);
  await eventually("they are under way", () => hanging.length === 200);
  its.on("settle", answerJson({ success: true, transaction: TRANSACTION }));
  expect((await facilitators.settle(REQUEST, its.url)).kind).toBe("settled");
});
