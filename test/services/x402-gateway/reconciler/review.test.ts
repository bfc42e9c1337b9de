import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { isDisputed } from "../../../../shared/payments/list.ts";
import { createResolve } from "../../../../shared/payments/resolve.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys } from "../../../fixtures/redis.ts";
import { idIn, PRICE, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { answerWith, startNodeBefore } from "../../../support/node-before.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const ends = useEnds();

/** Starts a proxy of the devnet's node that answers some requests itself. Returns its URL. */
async function nodeThat(answer: Parameters<typeof startNodeBefore>[1]): Promise<string> {
  const node = await startNodeBefore(fixture.devnet.rpcUrl, answer);
  ends.defer(() => node.close());
  return node.url;
}

const SAYS_SETTLED = { on: "settle", kind: "drop", acts: true, times: 1 } as const;

const hasLogged = ({ log }: TestX402, event: string) => log.events.some((each) => each.event === event);

test("a payment that the chain contradicts is never void: an operator decides, and a decision that it was paid queues its job", async () => {
  const rpc_url = await nodeThat((rpc, res) => rpc.method === "eth_getLogs" && answerWith([], rpc, res));
  const x402 = await fixture.gateway({ token: { rpc_url }, x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault(SAYS_SETTLED);
  const id = idIn(await x402.post(headers));
  await fixture.devnet.chain.increaseTime(500);
  await fixture.devnet.chain.mine(5);
  await eventually("it is at its end", async () => {
    x402.skip(30_000);
    return (await x402.journal.find(id))?.state !== "SETTLING";
  });
  expect(await x402.journal.find(id)).toMatchObject({ state: "REVIEW", reason: expect.any(String) });
  await eventually("it is logged", () => hasLogged(x402, "payment.in_review"));
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.in_review"]);
  expect([await x402.waiting(), await fixture.charged()]).toEqual([[], [PRICE]]);

  const payment = await x402.journal.find(id);
  if (payment === undefined) throw new Error("it is gone");
  const resolve = createResolve({
    ...{ journal: x402.journal, clock: Date.now, log: x402.log, by: "me" },
  });
  const [transfer] = await fixture.devnet.chain.transfers(fixture.devnet.seller);
  const verdict = { kind: "settled", transaction: String(transfer?.transaction), positions: [1] } as const;
  await resolve(payment, verdict, "seen");
  await eventually("its call waits", async () => (await x402.waiting()).length === 1);
});

onlyInLongRun(() => {
  test("a payment that the chain shows in a block that is not deep enough is awaited, and not settled again", async () => {
    const x402 = await fixture.gateway({ token: { confirmations: 50 }, x402: { settle_timeout_secs: 1 } });
    await fixture.devnet.control.fault(SAYS_SETTLED);
    const headers = await x402.pay({ payer: fixture.payer });
    const id = idIn(await x402.post(headers));
    let looked = String(await x402.redis.zscore(keys.paymentsDue, id));
    for (let look = 0; look < 4; look++) {
      looked = await eventually("it was looked at", async () => {
        x402.skip(1000);
        const due = String(await x402.redis.zscore(keys.paymentsDue, id));
        return due === looked ? undefined : due;
      });
    }
    expect([(await x402.journal.find(id))?.state, (await fixture.asked()).settle]).toEqual(["SETTLING", 1]);
    await fixture.devnet.chain.mine(50);
    await eventually("its call waits", async () => {
      x402.skip(10_000);
      return (await x402.waiting()).length === 1;
    });
    expect((await x402.journal.find(id))?.settlement?.by).toBe("chain");
    expect((await fixture.asked()).settle).toBe(1);
  });
});

test.each(sample([false, true]))(
  "a call that its queue has lost is added again (the chain's node is away: %s)",
  async (isAway) => {
    let away = false;
    const rpc_url = await nodeThat((_, res) => away && Boolean(res.writeHead(503).end()));
    const x402 = await fixture.gateway({ token: { rpc_url } });
    const headers = await x402.pay({ payer: fixture.payer });
    const id = idIn(await x402.undisturbed(() => x402.post(headers)));
    await (await x402.queues.find(id))?.remove();
    expect(await x402.waiting()).toEqual([]);
    away = isAway;
    x402.skip(35_000);
    await eventually("it waits again", async () => (await x402.waiting()).length === 1);
    expect((await x402.waiting())[0]).toMatchObject({ id });
    await eventually("it is logged", () => hasLogged(x402, "payment.call_missing"));
  },
);

test("a payment that vanishes for good after its call was queued is kept as disputed", async () => {
  const x402 = await fixture.gateway();
  const before = await fixture.devnet.chain.snapshot();
  const headers = await x402.pay({ payer: fixture.payer });
  // The payment vanishes before the reconciler can find its proof.
  const answer = await x402.undisturbed(async () => {
    const answered = await x402.post(headers);
    await fixture.devnet.chain.revert(before);
    return answered;
  });
  const id = idIn(answer);
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  await fixture.devnet.chain.increaseTime(200);
  await fixture.devnet.chain.mine(5);
  const payment = await eventually("it is disputed", async () => {
    x402.skip(5000);
    const found = await x402.journal.find(id);
    return found?.reason === undefined ? undefined : found;
  });
  const transaction = payment.settlement?.transaction;
  const reason = `the call was queued, but the chain says: expired; the chain no longer shows transaction ${transaction}`;
  expect(payment).toMatchObject({ state: "QUEUED", proven: false, reason });
  expect(isDisputed(payment)).toBe(true);
  await eventually("it is logged", () => hasLogged(x402, "payment.disputed"));
  expect((await x402.waiting()).map((call) => call.id)).toEqual([id]);
  // The received money does not match the queued calls, which is the reason for the dispute, so the final accounting is skipped.
  await x402.redis.flushdb();
  await fixture.stop(x402);
});

onlyInLongRun(() => {
  test("an operator gets a log line when a payment needs a facilitator that is no longer configured; once it is configured again, the payment is settled", async () => {
    const first = await fixture.gateway({ x402: { max_timeout_secs: 120 } });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    const headers = await first.pay({ payer: fixture.payer });
    const id = idIn(await first.post(headers));
    await fixture.stop(first);
    await fixture.devnet.control.clearFaults();
    const { settle } = await fixture.asked();

    const { facilitatorUrl } = fixture.devnet;
    const other = facilitatorUrl.replace("127.0.0.1", "localhost");
    const without = await fixture.gateway({ x402: { facilitator_url: other, max_timeout_secs: 120 } });
    without.skip(5000);
    const told = () => without.log.events.filter(({ event }) => event === "payment.facilitator_unknown");
    await eventually("it is logged", () => told().length === 1);
    const payment = await without.journal.find(id);
    const endsAt = new Date(Number(payment?.terms.valid_before) * 1000).toISOString();
    const facilitator = new URL(facilitatorUrl).origin;
    expect(told()[0]?.fields).toEqual({ callId: id, state: "SETTLING", facilitator, endsAt });
    expect([payment?.state, (await fixture.asked()).settle]).toEqual(["SETTLING", settle]);
    await fixture.stop(without);

    const back = await fixture.gateway({ x402: { max_timeout_secs: 120 } });
    await back.untilState(id, "QUEUED");
    expect(await fixture.charged()).toHaveLength(1);
  });

  describe("a payment whose token is no longer configured", () => {
    const DAY_MS = 86_400_000;
    const other = { token: { asset: `0x${"6".repeat(40)}` } };

    async function missed(x402: TestX402, id: string): Promise<void> {
      await eventually("it is missed", () => hasLogged(x402, "payment.token_unknown"));
      const errors = x402.log.events.filter(({ event }) => event === "payment.token_unknown");
      const { network, token: asset } = fixture.devnet;
      expect(errors.map(({ fields }) => fields)).toMatchObject([{ callId: id, network, asset }]);
      await eventually("it is soon handed back", async () => {
        const due = Number(await x402.redis.zscore(keys.paymentsDue, id));
        return due > Date.now() && due < Date.now() + 31_000;
      });
    }

    test("a payment whose token is no longer configured stays open; once the token is configured again, the chain decides", async () => {
      const first = await fixture.gateway();
      await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
      const headers = await first.pay({ payer: fixture.payer });
      const id = idIn(await first.post(headers));
      await fixture.stop(first);
      const { settle } = await fixture.asked();

      const without = await fixture.gateway(other);
      without.skip(DAY_MS);
      await missed(without, id);
      expect((await without.journal.find(id))?.state).toBe("SETTLING");
      expect((await fixture.asked()).settle).toBe(settle);
      await fixture.stop(without);

      await fixture.devnet.chain.increaseTime(200);
      await fixture.devnet.chain.mine(5);
      const back = await fixture.gateway();
      back.skip(DAY_MS);
      await eventually("it is void", async () => {
        back.skip(60_000);
        return (await back.journal.find(id))?.state === "VOID";
      });
    });

    test("an injected call whose token is no longer configured is not proven until the token is configured again", async () => {
      const first = await fixture.gateway();
      const headers = await first.pay({ payer: fixture.payer });
      const id = idIn(await first.undisturbed(() => first.post(headers)));
      await fixture.stop(first);

      const without = await fixture.gateway(other);
      without.skip(DAY_MS);
      await without.redis.hset(keys.record(id), "st", "INJECTED");
      await missed(without, id);
      const kept = await without.journal.find(id);
      expect([kept?.proven, kept?.request]).toEqual([false, expect.anything()]);
      await fixture.stop(without);

      const back = await fixture.gateway();
      back.skip(DAY_MS);
      await eventually("it is proven, and at its end", async () => {
        back.skip(60_000);
        return (await back.redis.zscore(keys.paymentsDue, id)) === null;
      });
      expect((await back.journal.find(id))?.proven).toBe(true);
    });
  });

  test("readiness shows since when a chain's node has not answered", async () => {
    let away = false;
    const rpc_url = await nodeThat((_, res) => away && Boolean(res.writeHead(503).end()));
    const x402 = await fixture.gateway({ token: { rpc_url } });
    const said = () => x402.gateway.readiness().checks["chains"];
    const { network } = fixture.devnet;
    expect(said()).toEqual([{ network, ok: true }]);
    const lastAnswerBefore = Date.now();
    away = true;
    await eventually("it is missed", () => hasLogged(x402, "chain.down"));
    x402.skip(16_000);
    expect(said()).toEqual([{ network, ok: false, since: expect.any(String) }]);
    const [{ since }] = said() as [{ since: string }];
    expect(Math.abs(Date.parse(since) - lastAnswerBefore)).toBeLessThan(5000);
    away = false;
    await eventually("it is back", () => (said() as { ok: boolean }[])[0]?.ok);
  });

  test("if a trusted facilitator names a transaction that does not exist, it is asked again and the true transaction is kept", async () => {
    const x402 = await fixture.gateway({ token: { settlement_proof: "facilitator" } });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "accept", times: 1 });
    const answer = await x402.undisturbed(() => x402.post(headers));
    expect(answer.status).toBe(202);
    const id = idIn(answer);
    const named = (await x402.journal.find(id))?.settlement?.transaction;
    x402.skip(31_000);
    const transfer = await eventually(
      "it is paid",
      async () => (await fixture.devnet.chain.transfers(fixture.devnet.seller))[0],
    );
    await eventually("the chain shows it", async () => {
      // Waits past the next scheduled check, because the check that settled again may still run.
      x402.skip(31_000);
      await fixture.devnet.chain.mine(1);
      return (await x402.journal.find(id))?.proven;
    });
    expect((await x402.journal.find(id))?.settlement?.transaction).toBe(transfer.transaction);
    expect(await fixture.charged()).toEqual([PRICE]);
    expect(x402.log.events.find(({ event }) => event === "payment.reorged")?.fields).toMatchObject({
      callId: id,
      settledAgain: "settled",
      reason: `the chain does not show transaction ${named}: it never did, or it was dropped`,
    });
  });

  test("each settle request of a payment that the chain does not show is counted before it is sent, until it is disputed", async () => {
    const x402 = await fixture.gateway({ token: { settlement_proof: "facilitator" } });
    const { settle: before } = await fixture.asked();
    await fixture.devnet.control.fault({ on: "settle", kind: "accept" });
    const headers = await x402.pay({ payer: fixture.payer });
    const id = idIn(await x402.undisturbed(() => x402.post(headers)));
    const named = (await x402.journal.find(id))?.settlement?.transaction;
    const sent = async () => (await fixture.asked()).settle - before;
    x402.skip(31_000);
    await eventually("it was sent again", async () => (await sent()) >= 2);
    await eventually("it was sent once more", async () => {
      x402.skip(100);
      return (await sent()) >= 3;
    });
    x402.skip(300_000);
    await fixture.devnet.chain.increaseTime(500);
    await fixture.devnet.chain.mine(5);
    const payment = await eventually("it is disputed", async () => {
      x402.skip(31_000);
      const found = await x402.journal.find(id);
      return found?.reason === undefined ? undefined : found;
    });
    expect(payment.reason).toBe(
      `the call was queued on the facilitator's word, but the chain says: expired; the chain does not show transaction ${named}: it never did, or it was dropped`,
    );
    expect(payment.dispatches).toBe(await sent());
    // `skip()` makes the payment older than it is.
    expect(payment.dispatchedAt - payment.claimedAt).toBeGreaterThan(31_000);
    await x402.redis.flushdb();
    await fixture.stop(x402);
  });

  test("the dispute says so if the named transaction of a payment paid another call", async () => {
    const x402 = await fixture.gateway({ token: { settlement_proof: "facilitator" } });
    const paid = idIn(await x402.post(await x402.pay({ payer: fixture.payer })));
    const transaction = (await x402.journal.find(paid))?.settlement?.transaction;
    await fixture.devnet.control.fault({ on: "settle", kind: "accept", ...(transaction && { transaction }) });
    const id = idIn(await x402.undisturbed(async () => x402.post(await x402.pay({ payer: fixture.payer }))));
    await fixture.devnet.chain.increaseTime(500);
    await fixture.devnet.chain.mine(5);
    const reason = await eventually("it is disputed", async () => {
      x402.skip(31_000);
      return (await x402.journal.find(id))?.reason;
    });
    expect(reason).toContain(
      `but the chain says: expired; transaction ${transaction} does not pay for this call`,
    );
    await x402.redis.flushdb();
    await fixture.stop(x402);
  });
});
