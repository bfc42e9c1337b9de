import { expect, test } from "vitest";
import { KnownPayments } from "../../../../services/x402-gateway/payment/known-payments.ts";
import { outcomeUnknown } from "../../../../services/x402-gateway/payment/outcome.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Partitioned } from "../../../../shared/redis/partition.ts";
import { useMadePayments } from "../../../fixtures/made-payments.ts";
import { claimPayment } from "../../../support/made-payment.ts";

const payments = useMadePayments();
const PATIENCE_MS = 20_000;

/**
 * Opens a payment that is being settled, and requests that wait for it. Only the test moves the clock. `sentAt` is the time of a first
 * request's settle request.
 */
async function open(waitingMax = 10) {
  const { devnet, journal } = payments;
  const id = await claimPayment(journal, { asset: devnet.token, network: devnet.network });
  let now = 1_000_000;
  let looks = 0;
  const watched = {
    findIdentified: async () => undefined,
    confirm: async () => {},
    findQuoted: async () => undefined,
    findWithoutCall: (each: string) => {
      looks += 1;
      return journal.findWithoutCall(each);
    },
  };
  const knownPayments = new KnownPayments({
    journals: new Partitioned([watched]),
    operatorQuotes: { readIfAccepted: () => undefined },
    clock: () => now,
    waitMs: PATIENCE_MS,
    waitingMax,
  });
  const wait = (sentAt: number, { replayed = false, isGone = (): boolean => false } = {}) => {
    const waiter = { state: "waits" };
    const open = replayed ? undefined : { error: outcomeUnknown(id, "a test"), sentAt };
    void knownPayments.outcome({ kind: "known", id, ...(open && { open }) }, isGone).then(
      () => Object.assign(waiter, { state: "paid" }),
      (error: Error & { code?: string }) => Object.assign(waiter, { state: error.code ?? error.message }),
    );
    return waiter;
  };
  return {
    now: () => now,
    ahead(ms: number): void {
      now += ms;
    },
    wait,
    /** Moves the clock. Resolves once every waiting request has read the payment again. */
    async later(ms: number): Promise<void> {
      now += ms;
      const before = looks;
      await eventually("they have read the payment twice", () => looks >= before + 2);
    },
    ends: (waiter: { state: string }) =>
      eventually("it ends", () => waiter.state === "payment.outcome_unknown"),
  };
}

test("a first request waits until settle_timeout_secs after its settle request, and a repeat waits as long from its own start", async () => {
  const { now, wait, ahead, later, ends } = await open();
  const first = wait(now() - 10_000);
  const repeat = wait(now(), { replayed: true });
  await later(0);
  await later(9_900);
  expect([first.state, repeat.state]).toEqual(["waits", "waits"]);
  await later(100);
  await ends(first);
  expect(repeat.state, "the later request still waits").toBe("waits");
  await later(9_900);
  expect(repeat.state).toBe("waits");
  ahead(100);
  await ends(repeat);
});

test("a first request whose facilitator has used up settle_timeout_secs still waits five seconds for the chain's answer", async () => {
  const { now, wait, later, ends } = await open();
  const [first, other] = [wait(now() - PATIENCE_MS), wait(now())];
  await later(0);
  await later(4900);
  expect(first.state).toBe("waits");
  await later(100);
  await ends(first);
  expect(other.state).toBe("waits");
});

test("a request whose client is gone stops waiting", async () => {
  const { now, wait, later, ends } = await open();
  let isGone = false;
  const [gone, there] = [wait(now(), { isGone: () => isGone }), wait(now())];
  await later(0);
  isGone = true;
  await later(0);
  await ends(gone);
  expect(there.state).toBe("waits");
});

test("waiting repeats, which cost nothing, do not cause a first request to be refused", async () => {
  const { now, wait, later, ends } = await open(1);
  const [repeat, another] = [wait(now(), { replayed: true }), wait(now(), { replayed: true })];
  const first = wait(now());
  await later(0);
  await ends(repeat.state === "waits" ? another : repeat);
  expect([repeat.state, another.state].toSorted()).toEqual(["payment.outcome_unknown", "waits"]);
  expect(first.state).toBe("waits");
});

test("a first request whose claim did not reach the journal gets that reason, and not the answer that the payment is gone", async () => {
  const clock = Date.now;
  const knownPayments = new KnownPayments({
    journals: new Partitioned([payments.journal]),
    operatorQuotes: { readIfAccepted: () => undefined },
    clock,
    waitMs: PATIENCE_MS,
  });
  const id = `c_${"0".repeat(32)}`;
  const error = outcomeUnknown(id, "whether the payment was claimed is unknown");
  const known = { kind: "known", id, open: { error, sentAt: clock() } } as const;
  await expect(knownPayments.outcome(known, () => false)).rejects.toBe(error);
});
