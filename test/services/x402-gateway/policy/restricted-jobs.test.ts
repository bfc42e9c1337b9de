import { beforeEach, describe, expect, test } from "vitest";
import type { DevAccount } from "../../../../services/dev/chain/chain.ts";
import { PRICE, PUBLIC_URL, signOffer, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { BOUND, BY_PAYER, DELEGATED, EXPIRY_SECS_MAX, proofOf, restrictedJobs } from "../restricted-jobs.ts";

const fixture = useX402();

let x402: TestX402;
let caller: DevAccount;

beforeEach(async () => {
  x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  caller = await newPayer(fixture.devnet, 0n);
});

const payFor = async (path: string, payer = fixture.payer) =>
  signOffer(await x402.post({}, { path }), { payer });

async function outcome(headers: Record<string, string>, path: string): Promise<unknown[]> {
  const { status, json } = await x402.post(headers, { path });
  return [status, json()["code"] ?? json()["status"] ?? json()["allowed"]];
}

async function expectFree({ verify = 0 } = {}): Promise<void> {
  expect(await fixture.asked()).toEqual({ verify, settle: 0 });
  expect(await fixture.charged()).toEqual([]);
  expect(await x402.waiting()).toEqual([]);
}

describe("a job whose payer must be permitted", () => {
  test("a permitted payer can buy a job that is restricted to permitted payers, and the runner gets the caller", async () => {
    await fixture.devnet.chain.permitCaller(1n, fixture.payer.address);
    expect(await outcome(await payFor(BY_PAYER), BY_PAYER)).toEqual([202, "accepted"]);
    const [call] = await x402.waiting();
    expect(call?.metadata["X-PLATFORM-CALLER"]).toBe(fixture.payer.address.toLowerCase());
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a payer who is not permitted is refused and not charged, even if the request claims another caller", async () => {
    const headers = { ...(await payFor(BY_PAYER)), "X-PLATFORM-CALLER": caller.address };
    await fixture.devnet.chain.permitCaller(1n, caller.address);
    await fixture.devnet.chain.permitCaller(2n, fixture.payer.address);
    expect(await outcome(headers, BY_PAYER)).toEqual([403, "caller.not_permitted"]);
    await expectFree();
  });

  onlyInLongRun(() => {
    test("a dry-run of a job for permitted payers says whether the payer is permitted, and asks for a payment without one", async () => {
      const dryRun = `${BY_PAYER}/auth-dry-run`;
      const headers = await payFor(BY_PAYER);
      expect((await x402.post({}, { path: dryRun })).json()).toMatchObject({ code: "payment.required" });
      await fixture.devnet.chain.permitCaller(1n, fixture.payer.address);
      const answer = await x402.post(headers, { path: dryRun });
      expect(answer.status).toBe(200);
      expect(answer.json()).toEqual({
        allowed: true,
        mode: "restricted_paid",
        caller: fixture.payer.address.toLowerCase(),
      });
      const stranger = await newPayer(fixture.devnet);
      expect(await outcome(await payFor(BY_PAYER, stranger), dryRun)).toEqual([403, "caller.not_permitted"]);
      await expectFree({ verify: 1 });
    });
  });
});

describe("a job whose caller must have signed", () => {
  beforeEach(() => fixture.devnet.chain.permitCaller(1n, caller.address));

  test("any payer can buy a job for permitted callers with the proof of a permitted caller", async () => {
    const headers = { ...(await payFor(DELEGATED)), ...(await proofOf({ by: caller })) };
    expect(await outcome(headers, DELEGATED)).toEqual([202, "accepted"]);
    const [call] = await x402.waiting();
    expect(call?.metadata).toMatchObject({
      "X-PLATFORM-CALLER": caller.address.toLowerCase(),
      "X-X402-PAYER": fixture.payer.address.toLowerCase(),
    });
  });

  const wrong: Record<string, [() => Promise<Record<string, string>>, string]> = {
    "no proof": [async () => ({}), "caller.missing"],
    "a proof for another body": [() => proofOf({ by: caller, body: "jello" }), "caller.proof_invalid"],
    "a proof for another job": [() => proofOf({ by: caller, job: 8 }), "caller.proof_invalid"],
    "an expired proof": [() => proofOf({ by: caller, expiresIn: -1 }), "caller.proof_invalid"],
    "a proof that lasts too long": [
      () => proofOf({ by: caller, expiresIn: EXPIRY_SECS_MAX + 60 }),
      "caller.proof_invalid",
    ],
    "the proof of a caller who is not permitted": [
      () => proofOf({ by: fixture.payer }),
      "caller.not_permitted",
    ],
    "a proof under another caller's address": [
      async () => ({ ...(await proofOf({ by: fixture.payer })), "X-PLATFORM-CALLER": caller.address }),
      "caller.proof_invalid",
    ],
  };
  test.each(sample(Object.entries(wrong)))(
    "a job for permitted callers paid with %s is 403, dry-run or not, and uncharged",
    async (_what, [proof, code]) => {
      const headers = { ...(await payFor(DELEGATED)), ...(await proof()) };
      expect(await outcome(headers, DELEGATED)).toEqual([403, code]);
      expect(await outcome(headers, `${DELEGATED}/auth-dry-run`)).toEqual([403, code]);
      await expectFree();
    },
  );

  onlyInLongRun(() => {
    test("a caller's proof for one body buys no other", async () => {
      const headers = { ...(await payFor(DELEGATED)), ...(await proofOf({ by: caller })) };
      const answer = await x402.post(headers, { path: DELEGATED, body: "jello" });
      expect([answer.status, answer.json()["code"]]).toEqual([403, "caller.proof_invalid"]);
      await expectFree();
    });
  });

  test("a caller's nonce is used up by a payment, not by a dry-run; a second payment is refused uncharged", async () => {
    const dryRun = `${DELEGATED}/auth-dry-run`;
    const proof = await proofOf({ by: caller });
    for (let i = 0; i < 2; i++) expect(await outcome(proof, dryRun)).toEqual([200, true]);
    const first = { ...(await payFor(DELEGATED)), ...proof };
    expect(await outcome(first, DELEGATED)).toEqual([202, "accepted"]);

    const second = { ...(await payFor(DELEGATED)), ...proof };
    expect(await outcome(second, DELEGATED)).toEqual([403, "caller.nonce_used"]);
    expect(await outcome(proof, dryRun)).toEqual([403, "caller.nonce_used"]);
    expect((await fixture.asked()).settle).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
    // A repeat of the payment is not a second use of the nonce.
    expect(await outcome(first, DELEGATED)).toEqual([202, "accepted"]);
    const renewed = await proofOf({ by: caller, nonce: "nonce-2" });
    expect(await outcome({ ...second, ...renewed }, DELEGATED)).toEqual([202, "accepted"]);
  });

  onlyInLongRun(() => {
    test("three payments at once with one caller's nonce are one charge", async () => {
      const proof = await proofOf({ by: caller });
      const payments = await Promise.all([1, 2, 3].map(() => payFor(DELEGATED)));
      const outcomes = await Promise.all(
        payments.map((headers) => outcome({ ...headers, ...proof }, DELEGATED)),
      );
      expect(outcomes.map(([status]) => status).sort()).toEqual([202, 403, 403]);
      expect(await fixture.charged()).toEqual([PRICE]);
    });
  });
});

test("a proof seen at one gateway buys nothing at another gateway's job that demands one bound to its public_url", async () => {
  await fixture.devnet.chain.permitCaller(1n, caller.address);
  const pay = async (proof: Record<string, string>) => outcome({ ...(await payFor(BOUND)), ...proof }, BOUND);
  expect(await pay(await proofOf({ by: caller, job: 10 }))).toEqual([403, "caller.proof_invalid"]);
  const elsewhere = await proofOf({ by: caller, job: 10, at: "https://other.example" });
  expect(await pay(elsewhere)).toEqual([403, "caller.proof_invalid"]);
  await expectFree();
  expect(await pay(await proofOf({ by: caller, job: 10, at: PUBLIC_URL }))).toEqual([202, "accepted"]);
  expect(await fixture.charged()).toEqual([PRICE]);
});
