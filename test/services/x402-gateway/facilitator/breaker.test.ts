import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import {
  answerJson,
  answerText,
  type Behave,
  type FaultyFacilitator,
  never,
  PAYER,
  payingClient,
  startFaultyFacilitator,
  TRANSACTION,
} from "./faulty-facilitator.ts";

const KIND = { scheme: "exact", network: "eip155:84532" };
const OFFER = {
  ...KIND,
  ...{ asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", payTo: `0x${"22".repeat(20)}`, amount: "1000" },
  ...{ maxTimeoutSeconds: 120, extra: { name: "USDC", version: "2" } },
};
const requestOf = (payer: string): FacilitatorRequest => ({
  x402Version: 2,
  paymentPayload: { x402Version: 2, payload: { authorization: { from: payer } } },
  paymentRequirements: OFFER,
});

const ends = useEnds();
const answerValid = answerJson({ isValid: true });

async function facilitator(): Promise<FaultyFacilitator> {
  const its = await startFaultyFacilitator();
  ends.defer(() => its.close());
  return its;
}

/** `hanging` is how long the client waits for a verification that hangs. */
async function clientOf(all: readonly FaultyFacilitator[], { hanging = 20_000 } = {}) {
  const log = recordingLog();
  const facilitators = new Facilitators({
    facilitators: all.map(({ url }) => ({ url, headers: {} })),
    authorize: undefined,
    verifyTimeoutMs: hanging,
    settleTimeoutMs: 5000,
    clock: systemClock,
    log,
  });
  ends.defer(() => facilitators.close());
  void facilitators.start();
  await eventually("all are known", () => facilitators.available().every(({ ok }) => ok));
  const verify = (payer: string) => facilitators.judge(requestOf(payer), KIND, payingClient(payer));
  return {
    facilitators,
    log,
    verify,
    /** Answers to the concurrent verifications of several payers: the kind of the verdict, or the code of the refusal. */
    verifyAll: (payers: readonly string[]) =>
      Promise.all(
        payers.map((payer) =>
          verify(payer).then(
            ({ verified }) => verified.kind,
            ({ code }) => code,
          ),
        ),
      ),
    stateIs: (breaker: string) =>
      eventually(`it is ${breaker}`, () => facilitators.available()[0]?.breaker === breaker),
  };
}

const payers = (count: number, name = "payer") => Array.from({ length: count }, (_, i) => `${name} ${i}`);
const asksOf = (its: FaultyFacilitator, operation: string) =>
  its.asked.filter(({ path }) => path === `/base/${operation}`);
const payerIn = ({ body }: FaultyFacilitator["asked"][number]): string =>
  JSON.parse(body).paymentPayload.payload.authorization.from;
/** The canary payments that the facilitator has received: the verifications of unknown payers. */
const canariesOf = (its: FaultyFacilitator) =>
  asksOf(its, "verify").filter((asked) => payerIn(asked).startsWith("0x"));

/** Applies a behaviour to the payments of some payers. All other payments are judged. */
const onlyFor =
  (isAffected: (payer: string) => boolean, its: FaultyFacilitator, behave: Behave): Behave =>
  (req, res) =>
    isAffected(payerIn(its.asked.at(-1) as FaultyFacilitator["asked"][number]))
      ? behave(req, res)
      : answerValid(req, res);

test("a facilitator that answers no verification is sent no further ones: payers are refused at once, until it judges a payment again", async () => {
  const its = await facilitator();
  const { facilitators, log, verify, verifyAll, stateIs } = await clientOf([its], { hanging: 1000 });
  its.on("supported", answerText("", 503));
  its.on("verify", never);

  expect(new Set(await verifyAll(payers(5)))).toEqual(new Set(["payment.unavailable"]));
  await stateIs("open");
  const asked = asksOf(its, "verify").length;
  const startedAt = performance.now();
  await expect(verify("late")).rejects.toMatchObject({
    code: "payment.unavailable",
    // If a probe has failed, its reason replaces that of the verifications.
    message: expect.stringMatching(
      /not asked, because it answers no verify request \((no answer within 1000 ms|status 503)\)/,
    ),
    retryAfterMs: expect.any(Number),
  });
  expect(performance.now() - startedAt).toBeLessThan(1000);
  expect(asksOf(its, "verify")).toHaveLength(asked);
  expect(facilitators.available()).toMatchObject([{ ok: false, breaker: "open" }]);

  its.on("verify", answerValid);
  its.on("supported", answerJson({ kinds: [{ x402Version: 2, ...KIND }] }));
  await stateIs("closed");
  expect((await verify("late")).verified.kind).toBe("valid");
  expect(log.events.map(({ event, fields }) => [event, fields["verifies"]])).toEqual([
    ["facilitator.down", undefined],
    ["facilitator.down", "withheld"],
    ["facilitator.up", undefined],
  ]);
});

test("a verification that an open breaker withholds from one facilitator goes to the next one at once", async () => {
  const [ill, other] = [await facilitator(), await facilitator()];
  ill.on("verify", answerText("", 503));
  other.on("verify", answerText("", 503));
  const { verify, verifyAll, stateIs } = await clientOf([ill, other]);
  ill.on("supported", answerText("", 503));
  await verifyAll(payers(5));
  await stateIs("open");
  other.on("verify", answerValid);
  const asked = asksOf(ill, "verify").length;
  expect((await verify("any")).url).toBe(other.url);
  expect(asksOf(ill, "verify")).toHaveLength(asked);
});

test("a settle request is sent once whatever the state of the breaker, and does not open or close it", async () => {
  const its = await facilitator();
  const { facilitators, verifyAll, stateIs } = await clientOf([its]);
  its.on("settle", answerText("", 503));
  for (let i = 0; i < 10; i++) await facilitators.settle(requestOf(PAYER), its.url);
  expect(facilitators.available()).toMatchObject([{ breaker: "closed" }]);

  its.on("supported", answerText("", 503));
  its.on("verify", answerText("", 503));
  await verifyAll(payers(5));
  await stateIs("open");
  its.on("settle", answerJson({ success: true, transaction: TRANSACTION }));
  expect((await facilitators.settle(requestOf(PAYER), its.url)).kind).toBe("settled");
  expect(asksOf(its, "settle")).toHaveLength(11);
  expect(facilitators.available()).toMatchObject([{ ok: false, breaker: "open" }]);
});

test("while the breaker is half open, one verification is sent at a time, and one for each payer", async () => {
  const its = await facilitator();
  const { verify, verifyAll, stateIs } = await clientOf([its], { hanging: 1000 });
  its.on("verify", answerText("", 503));
  its.on("supported", answerText("", 503));
  await verifyAll(payers(5));
  await stateIs("open");
  its.on("verify", never);
  its.on("supported", answerJson({ kinds: [{ x402Version: 2, ...KIND }] }));
  await stateIs("half_open");

  const before = asksOf(its, "verify").filter((each) => !payerIn(each).startsWith("0x")).length;
  await verifyAll(["one", "two", "three"]);
  const tried = asksOf(its, "verify").filter((each) => !payerIn(each).startsWith("0x"));
  expect(tried).toHaveLength(before + 1);

  its.on(
    "verify",
    onlyFor((payer) => payer !== "good", its, never),
  );
  await eventually("the payment of the good payer is sent", async () =>
    verify("good").then(
      () => true,
      () => false,
    ),
  );
  await stateIs("closed");
});

test("one payer whose payments get no answer does not open the breaker, however many payments they send", async () => {
  const its = await facilitator();
  const { facilitators, verifyAll } = await clientOf([its]);
  its.on("supported", answerText("", 503));
  its.on("verify", answerText("", 500));
  for (let i = 0; i < 4; i++) await verifyAll(Array(20).fill("attacker"));
  expect(facilitators.available()).toMatchObject([{ breaker: "closed" }]);
  expect(canariesOf(its)).toEqual([]);
});

onlyInLongRun(() => {
  test("many payers whose payments get no answer do not open the breaker while the canary payment gets a verdict", async () => {
    const its = await facilitator();
    const { facilitators, log, verify, verifyAll } = await clientOf([its], { hanging: 1000 });
    for (const behave of [never, answerText("", 500)]) {
      its.on(
        "verify",
        onlyFor((payer) => payer.startsWith("attacker"), its, behave),
      );
      for (let i = 0; i < 3; i++) {
        await verifyAll(payers(20, "attacker"));
        expect((await verify("honest")).verified.kind).toBe("valid");
      }
    }
    await eventually("the canary payment was sent", () => canariesOf(its).length > 0);
    expect(facilitators.available()).toMatchObject([{ breaker: "closed" }]);
    expect(log.events.filter(({ fields }) => fields["verifies"] !== undefined)).toEqual([]);

    const control = JSON.parse(canariesOf(its)[0]?.body ?? "");
    expect(control).toMatchObject({
      ...{ x402Version: 2, paymentRequirements: OFFER },
      paymentPayload: {
        ...{ x402Version: 2, accepted: OFFER },
        payload: { authorization: { to: OFFER.payTo, value: OFFER.amount } },
      },
    });
  });
});

test("a payment that hangs while others get a verdict does not count against the facilitator", async () => {
  const its = await facilitator();
  const { facilitators, verify, verifyAll } = await clientOf([its]);
  const hanging: ServerResponse[] = [];
  its.on(
    "verify",
    onlyFor(
      (payer) => payer.startsWith("attacker"),
      its,
      (_req, res) => void hanging.push(res),
    ),
  );
  const refused = verifyAll(payers(50, "attacker"));
  await eventually("they are in flight", () => hanging.length === 50);
  await verify("honest");
  for (const res of hanging) res.destroy();
  expect(new Set(await refused)).toEqual(new Set(["payment.unavailable"]));
  expect(canariesOf(its)).toEqual([]);
  expect(facilitators.available()).toMatchObject([{ breaker: "closed" }]);
});

test.each([400, 413, 422])(
  "an answer with %s and without a verdict does not count against the facilitator, because a payer can cause it",
  async (status) => {
    const its = await facilitator();
    const { facilitators, log, verifyAll } = await clientOf([its]);
    its.on("verify", answerJson({ error: "unknown field" }, status));
    expect(new Set(await verifyAll(payers(20, "attacker")))).toEqual(new Set(["payment.unavailable"]));
    expect(facilitators.available()).toMatchObject([{ ok: true, breaker: "closed" }]);
    expect(canariesOf(its)).toEqual([]);
    expect(log.events).toEqual([]);
  },
);
