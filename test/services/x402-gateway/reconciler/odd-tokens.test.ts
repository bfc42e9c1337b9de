import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { idIn, PRICE, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { authorizationIn, signAuthorization } from "../../../support/sign-payment.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });

const ORDERS = [
  ["used_first", { eventBetween: true }],
  ["transfer_first", { transferFirst: true }],
  ["transfer_first", { transferFirst: true, eventBetween: true }],
  ["used_first", { silentIfUsed: true }],
] as const;

test.each(sample(ORDERS))(
  "with event_order %s, a payment in a token that does %o is one charge and one job",
  async (event_order, odd) => {
    await fixture.devnet.control.makeOdd(odd);
    const x402 = await fixture.gateway({ token: { event_order } });
    const answer = await x402.undisturbed(async () => x402.post(await x402.pay({ payer: fixture.payer })));
    expect(answer.status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
    expect(await x402.waiting()).toHaveLength(1);
  },
);

/** Expects that the payment is in review and no call is queued. Its money was received, so the fixture's accounting must count it. */
async function expectReview(x402: TestX402, answer: Answer, headers: Record<string, string>, reason: string) {
  expect(answer.status).toBe(503);
  expect(answer.json()["code"]).toMatch(/^payment\.(outcome_unknown|in_review)$/);
  await fixture.devnet.chain.finalize();
  expect((await x402.untilState(idIn(answer), "REVIEW")).reason).toContain(reason);
  expect(await x402.waiting()).toEqual([]);
  fixture.foreign.push(authorizationIn(headers).authorization.nonce);
}

onlyInLongRun(() => {
  test("a payment in a token whose event_order is wrong is in review, never void, and the reason names the setting", async () => {
    await fixture.devnet.control.makeOdd({ transferFirst: true });
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post(headers);
    expect(await fixture.charged()).toEqual([PRICE]);
    await expectReview(x402, answer, headers, 'event_order = "used_first"');
  });

  test("a payment in a token that keeps a part of each transfer is in review, and no job", async () => {
    await fixture.devnet.control.makeOdd({ feeBps: 100 });
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post(headers);
    expect(await fixture.charged()).toContain((PRICE * 99n) / 100n);
    await expectReview(x402, answer, headers, "the token keeps a part of each transfer");
  });
});

test("a payer who spends the nonce on a transfer to the payer gets no job, even if the token does not revert and the facilitator reports success", async () => {
  const { control, chain, token, chainId } = fixture.devnet;
  const { payer } = fixture;
  await control.makeOdd({ silentIfUsed: true });
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer });
  const { nonce } = authorizationIn(headers).authorization;
  const own = await signAuthorization({ payer, to: payer.address, value: 1n, token, chainId, nonce });
  await control.fault({ on: "settle", kind: "accept", acts: true, delayMs: 500 });
  const answered = x402.undisturbed(() => x402.post(headers));
  await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
  await chain.frontRun(own);
  const answer = await answered;
  const said = x402.log.events.find(({ event }) => event === "payment.settle_answered");
  expect([said?.fields["outcome"], answer.status]).toEqual(["settled", 503]);
  await chain.finalize();
  await x402.untilState(idIn(answer), "VOID");
  expect(await x402.waiting()).toEqual([]);
});

test("a payment whose facilitator names another payment's transaction is not a job before it is paid itself", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const first = await x402.post(await x402.pay({ payer: fixture.payer }));
  expect(first.status).toBe(202);
  const transaction = String(first.json()["transaction"]);
  await fixture.devnet.control.fault({ on: "settle", kind: "accept", transaction, times: 1 });
  const answer = await x402.undisturbed(async () => x402.post(await x402.pay({ payer: fixture.payer })));
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  expect([await fixture.charged(), (await x402.waiting()).length]).toEqual([[PRICE], 1]);
  await x402.untilState(idIn(answer), "QUEUED");
  expect(await fixture.charged()).toEqual([PRICE, PRICE]);
});

const MEANWHILE = {
  "its token blacklists the payer": () => fixture.devnet.chain.blacklist(fixture.payer.address),
  "the domain of its token changes": () => fixture.devnet.control.makeOdd({ version: "3" }),
};
onlyInLongRun(() => {
  test.each(Object.entries(MEANWHILE))(
    "a payment ends void and is not charged if %s before it settles",
    async (_what, act) => {
      const { control, chain } = fixture.devnet;
      await control.makeOdd({});
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      await control.fault({ on: "settle", kind: "slow", delayMs: 300, times: 1 });
      const answered = x402.undisturbed(() => x402.post(headers));
      await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
      await act();
      const answer = await answered;
      expect(answer.status).toBe(503);
      await chain.increaseTime(200);
      await chain.finalize();
      expect((await x402.untilState(idIn(answer), "VOID")).reason).toBe("expired");
      expect(await fixture.charged()).toEqual([]);
    },
  );
});
