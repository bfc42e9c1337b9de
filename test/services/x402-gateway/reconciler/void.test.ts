import { expect, test } from "vitest";
import type { DevAccount, Hex } from "../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { keys } from "../../../fixtures/redis.ts";
import { idIn, PRICE, requiredIn, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import {
  authorizationIn,
  type SignedAuthorization,
  signAuthorization,
} from "../../../support/sign-payment.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });

/** Sends the payment again until its outcome is known. Until then, each answer must be 503, and never 402 without proof. */
function final(x402: TestX402, headers: Record<string, string>): Promise<Answer> {
  return eventually("an answer that is final", async () => {
    const answer = await x402.post(headers);
    if (answer.status !== 503) return answer;
    expect([answer.json()["code"], answer.headers["payment-required"]]).toEqual([
      "payment.outcome_unknown",
      undefined,
    ]);
    return undefined;
  });
}

async function expectVoid(x402: TestX402, headers: Record<string, string>, reason: string): Promise<void> {
  await fixture.devnet.chain.finalize();
  x402.skip(2000);
  const answer = await final(x402, headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.void"]);
  expect(answer.json()["detail"]).toContain(reason);
  expect(requiredIn(answer).accepts).toHaveLength(1);
  expect(await fixture.charged()).toEqual([]);
  expect(await x402.waiting()).toEqual([]);
}

/** Time of the next check by the reconciler. Each check changes it. */
const dueOf = async (x402: TestX402) =>
  String(await x402.redis.zrange(keys.paymentsDue, "0", "-1", "WITHSCORES"));

const stateOf = async (x402: TestX402, answer: Answer) => (await x402.journal.find(idIn(answer)))?.state;

test("a payment that never reaches the chain is void once a final block is past its authorization's end, and then 402", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const away = { on: "settle", kind: "status", status: 503 } as const;
  await fixture.devnet.control.fault({ ...away, replyDelayMs: 60_000 });
  const answer = await x402.post(headers);
  expect(answer.status).toBe(503);
  await fixture.devnet.control.clearFaults();
  await fixture.devnet.control.fault(away);
  const looked = await dueOf(x402);
  await eventually("it was looked at", async () => (await dueOf(x402)) !== looked);
  expect(await stateOf(x402, answer)).toBe("SETTLING");
  await fixture.devnet.chain.increaseTime(200);
  await expectVoid(x402, headers, "expired");
  const payment = await x402.journal.find(idIn(answer));
  expect([payment?.state, payment?.call, payment?.request]).toEqual(["VOID", undefined, undefined]);
});

onlyInLongRun(() => {
  test("a payment that never reaches the chain is not void just because our own clock is past its authorization's end", async () => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    const answer = await x402.post(headers);
    x402.skip(86_400_000);
    for (let look = 0; look < 2; look++) {
      const looked = await dueOf(x402);
      await eventually("it was looked at", async () => (await dueOf(x402)) !== looked);
      x402.skip(60_000);
    }
    expect(await stateOf(x402, answer)).toBe("SETTLING");
    await fixture.devnet.chain.increaseTime(200);
    await fixture.devnet.chain.finalize();
    await eventually("it is void", async () => {
      x402.skip(60_000);
      return (await stateOf(x402, answer)) === "VOID";
    });
    await expectVoid(x402, headers, "expired");
  });

  test("a void payment no longer counts as an open payment, and its identifier can be used again", async () => {
    const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 1, settle_timeout_secs: 1 } });
    const extensions = { "payment-identifier": { info: { required: false, id: "order_0123456789abcdef" } } };
    const headers = await x402.pay({ payer: fixture.payer }, { extensions });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    expect((await x402.post(headers)).status).toBe(503);
    await fixture.devnet.chain.increaseTime(200);
    await expectVoid(x402, headers, "expired");
    await fixture.devnet.control.clearFaults();
    // From now on the chain's time is ahead of ours, so the authorization's end must be ahead too.
    const validBefore = (await fixture.devnet.chain.now()) + 130n;
    const clock = () => Date.now() + 200_000;
    const later = await fixture.gateway({ clock, x402: { settle_timeout_secs: 20 } });
    const again = await later.pay({ payer: fixture.payer, validBefore }, { extensions });
    expect((await later.post(again, { body: "another request" })).status).toBe(202);
  });
});

/** Sends the payment, and runs an action after the facilitator found it valid and before it is settled. */
async function raced(
  x402: TestX402,
  headers: Record<string, string>,
  act: () => Promise<unknown>,
): Promise<Answer> {
  await fixture.devnet.chain.pauseMining();
  const answered = x402.post(headers);
  await eventually("the settle waits in the pool", async () => {
    const { pending } = await fixture.devnet.chain.client.getTxpoolStatus();
    return pending === 1;
  });
  await act();
  await fixture.devnet.chain.resumeMining();
  return answered;
}

async function payToSelf(payer: DevAccount, nonce: Hex): Promise<SignedAuthorization> {
  const { token, chainId } = fixture.devnet;
  return signAuthorization({ payer, to: payer.address, value: 1n, token, chainId, nonce });
}

test("a payment is one charge and one job if a third party sends its authorization before the settle request", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  let hash: Hex = "0x";
  const first = await raced(x402, headers, async () => {
    hash = await fixture.devnet.chain.frontRun(authorizationIn(headers), { pending: true });
  });
  expect([202, 503]).toContain(first.status);
  const answer = await final(x402, headers);
  expect([answer.status, answer.json()["transaction"]]).toEqual([202, hash]);
  expect(await fixture.charged()).toEqual([PRICE]);
  const [call] = await x402.waiting();
  expect(call?.metadata["X-X402-TRANSACTION"]).toBe(hash);
});

onlyInLongRun(() => {
  test("a payment is one charge and one job if a third party sends its authorization before the facilitator tries", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 600, times: 1 });
    const answered = x402.post(headers);
    await eventually("the settle request is in flight", async () => (await fixture.asked()).settle === 1);
    const hash = await fixture.devnet.chain.frontRun(authorizationIn(headers));
    const answer = await answered;
    expect([answer.status, answer.json()["transaction"]]).toEqual([202, hash]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

test("a payment is void and no job if the payer cancels its authorization", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const { nonce } = authorizationIn(headers).authorization;
  const first = await x402.undisturbed(() =>
    raced(x402, headers, () =>
      fixture.devnet.chain.cancelAuthorization(fixture.payer, nonce, { pending: true }),
    ),
  );
  expect(first.status).toBe(503);
  expect(await fixture.devnet.chain.authorizationState(fixture.payer.address, nonce)).toBe(true);
  await expectVoid(x402, headers, "cancelled");
});

test("a payment is void and no job if the payer spends its nonce on a transfer to the payer", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const own = await payToSelf(fixture.payer, authorizationIn(headers).authorization.nonce);
  const first = await x402.undisturbed(() =>
    raced(x402, headers, () => fixture.devnet.chain.frontRun(own, { pending: true })),
  );
  expect(first.status).toBe(503);
  await expectVoid(x402, headers, "spent_otherwise");
});

onlyInLongRun(() => {
  test("no settle request is sent later than max_timeout_secs after the claim, and the payment is one job if another party sends it then", async () => {
    const x402 = await fixture.gateway({ x402: { max_timeout_secs: 14, settle_timeout_secs: 1 } });
    const validBefore = BigInt(Math.floor(Date.now() / 1000) + 40);
    const headers = await x402.pay({ payer: fixture.payer, validBefore });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    const answer = await x402.undisturbed(() => x402.post(headers));
    expect(answer.status).toBe(503);
    const claimedAt = (await x402.journal.find(idIn(answer)))?.claimedAt ?? 0;
    const look = async () => {
      await x402.redis.zadd(keys.paymentsDue, "XX", 0, idIn(answer));
      const due = `${idIn(answer)},0`;
      await eventually("it was looked at", async () => (await dueOf(x402)) !== due);
    };
    x402.skip(claimedAt + 10_000 - Date.now());
    await eventually("it is settled again in time", async () => (await fixture.asked()).settle > 1);
    x402.skip(4000);
    await look();
    const { settle } = await fixture.asked();
    for (let times = 0; times < 3; times++) {
      x402.skip(2000);
      await look();
    }
    expect((await fixture.asked()).settle).toBe(settle);
    await fixture.devnet.chain.frontRun(authorizationIn(headers));
    await x402.untilState(idIn(answer), "QUEUED");
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});
