import type { PaymentRequirements } from "@x402/core/types";
import { privateKeyToAccount } from "viem/accounts";
import { keccak256 } from "viem/utils";
import { beforeEach, describe, expect, test } from "vitest";
import type { DevAccount } from "../../../../../services/devnet/chain.ts";
import { inTime, PRICE, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { signPayment } from "../../../../support/sign-payment.ts";

const fixture = useX402();
const BY_PAYER = "/x402/jobs/1/8";
const DELEGATED = "/x402/jobs/1/9";
const prices = { "7": "1000000000000000", "8": "1000000000000000", "9": "1000000000000000" };
const EXPIRY_MAX = 600;

let x402: TestX402;
let caller: DevAccount;

/** Job 8 is for payers who are permitted, job 9 for callers who are, whoever pays. */
beforeEach(async () => {
  const { callerRegistry: contract, rpcUrl: rpc_url } = fixture.devnet;
  const restricted = { service_id: 1, invocation_mode: "restricted_paid", contract, rpc_url };
  x402 = await fixture.gateway({
    prices,
    x402: {
      job_policies: [
        { ...restricted, job_index: 8, auth_mode: "payer_is_caller" },
        {
          ...restricted,
          job_index: 9,
          auth_mode: "delegated_caller_signature",
          caller_expiry_secs_max: EXPIRY_MAX,
        },
      ],
    },
  });
  caller = await newPayer(fixture.devnet, 0n);
});

async function payFor(path: string, payer = fixture.payer): Promise<Record<string, string>> {
  const offer = (await x402.ask(path)).v2.accepts[0] as PaymentRequirements;
  return { "PAYMENT-SIGNATURE": (await signPayment(offer, inTime({ payer }))).header };
}

type Proof = { nonce?: string; body?: string; expiresIn?: number; by?: DevAccount; job?: number };

async function proofOf({
  nonce = "nonce-1",
  body = "hello",
  expiresIn = 300,
  by = caller,
  job = 9,
}: Proof = {}) {
  const expiry = String(Math.floor(Date.now() / 1000) + expiresIn);
  const bodyHash = keccak256(Buffer.from(body)).slice(2);
  const message = `x402-authorize:1:${job}:${bodyHash}:${nonce}:${expiry}`;
  return {
    "X-PLATFORM-CALLER": by.address,
    "X-PLATFORM-CALLER-NONCE": nonce,
    "X-PLATFORM-CALLER-SIG": await privateKeyToAccount(by.privateKey).signMessage({ message }),
    "X-PLATFORM-CALLER-EXPIRY": expiry,
  };
}

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
  test("is sold to one who is, and the runner is told the caller", async () => {
    await fixture.devnet.chain.permitCaller(1n, fixture.payer.address);
    expect(await outcome(await payFor(BY_PAYER), BY_PAYER)).toEqual([202, "accepted"]);
    const [call] = await x402.waiting();
    expect(call?.metadata["X-PLATFORM-CALLER"]).toBe(fixture.payer.address.toLowerCase());
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("is refused to others, who are not charged, whoever they say they are", async () => {
    const headers = { ...(await payFor(BY_PAYER)), "X-PLATFORM-CALLER": caller.address };
    await fixture.devnet.chain.permitCaller(1n, caller.address);
    await fixture.devnet.chain.permitCaller(2n, fixture.payer.address);
    expect(await outcome(headers, BY_PAYER)).toEqual([403, "caller.not_permitted"]);
    await expectFree();
  });

  test("a dry-run with a payment says the same and settles nothing; without one it asks for one", async () => {
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

describe("a job whose caller must have signed", () => {
  beforeEach(() => fixture.devnet.chain.permitCaller(1n, caller.address));

  test("is sold to anybody who pays with a permitted caller's proof", async () => {
    const headers = { ...(await payFor(DELEGATED)), ...(await proofOf()) };
    expect(await outcome(headers, DELEGATED)).toEqual([202, "accepted"]);
    const [call] = await x402.waiting();
    expect(call?.metadata).toMatchObject({
      "X-PLATFORM-CALLER": caller.address.toLowerCase(),
      "X-X402-PAYER": fixture.payer.address.toLowerCase(),
    });
  });

  const wrong: Record<string, [() => Promise<Record<string, string>>, string]> = {
    "no proof": [async () => ({}), "caller.missing"],
    "another body": [() => proofOf({ body: "jello" }), "caller.proof_invalid"],
    "another job": [() => proofOf({ job: 8 }), "caller.proof_invalid"],
    "an expired proof": [() => proofOf({ expiresIn: -1 }), "caller.proof_invalid"],
    "a proof that lasts too long": [() => proofOf({ expiresIn: EXPIRY_MAX + 60 }), "caller.proof_invalid"],
    "a caller who is not permitted": [() => proofOf({ by: fixture.payer }), "caller.not_permitted"],
    "somebody else's address": [
      async () => ({ ...(await proofOf({ by: fixture.payer })), "X-PLATFORM-CALLER": caller.address }),
      "caller.proof_invalid",
    ],
  };
  test.each(Object.entries(wrong))("%s is 403, and nothing is charged", async (_name, [proof, code]) => {
    const headers = { ...(await payFor(DELEGATED)), ...(await proof()) };
    expect(await outcome(headers, DELEGATED)).toEqual([403, code]);
    expect(await outcome(headers, `${DELEGATED}/auth-dry-run`)).toEqual([403, code]);
    await expectFree();
  });

  test("a proof for one body buys no other", async () => {
    const headers = { ...(await payFor(DELEGATED)), ...(await proofOf()) };
    const answer = await x402.post(headers, { path: DELEGATED, body: "jello" });
    expect([answer.status, answer.json()["code"]]).toEqual([403, "caller.proof_invalid"]);
    await expectFree();
  });

  test("a nonce is used up by a payment and not by a dry-run; the second payment is refused uncharged", async () => {
    const dryRun = `${DELEGATED}/auth-dry-run`;
    const proof = await proofOf();
    for (let i = 0; i < 2; i++) expect(await outcome(proof, dryRun)).toEqual([200, true]);
    const first = { ...(await payFor(DELEGATED)), ...proof };
    expect(await outcome(first, DELEGATED)).toEqual([202, "accepted"]);

    const second = { ...(await payFor(DELEGATED)), ...proof };
    expect(await outcome(second, DELEGATED)).toEqual([403, "caller.nonce_used"]);
    expect(await outcome(proof, dryRun)).toEqual([403, "caller.nonce_used"]);
    expect((await fixture.asked()).settle).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
    // The payment itself, sent again, is no second use.
    expect(await outcome(first, DELEGATED)).toEqual([202, "accepted"]);
    expect(await outcome({ ...second, ...(await proofOf({ nonce: "nonce-2" })) }, DELEGATED)).toEqual([
      202,
      "accepted",
    ]);
  });

  test("two payments at once with one nonce: one is charged", async () => {
    const proof = await proofOf();
    const payments = await Promise.all([1, 2, 3].map(() => payFor(DELEGATED)));
    const outcomes = await Promise.all(
      payments.map((headers) => outcome({ ...headers, ...proof }, DELEGATED)),
    );
    expect(outcomes.map(([status]) => status).sort()).toEqual([202, 403, 403]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

test("a registry that cannot be asked is 503, nothing is charged, and its URL is nobody's to know", async () => {
  const rpc_url = "http://127.0.0.1:1/canary-key";
  const policy = {
    service_id: 1,
    job_index: 8,
    invocation_mode: "restricted_paid",
    auth_mode: "payer_is_caller",
  };
  const contract = fixture.devnet.callerRegistry;
  const blind = await fixture.gateway({ prices, x402: { job_policies: [{ ...policy, contract, rpc_url }] } });
  const answer = await blind.post(await payFor(BY_PAYER), { path: BY_PAYER });
  expect([answer.status, answer.json()["code"]]).toEqual([503, "caller.check_unavailable"]);
  expect(answer.text + blind.log.text()).not.toContain("canary-key");
  await expectFree();
});

test("a dry-run of a job that anybody may buy allows everybody", async () => {
  const answer = await x402.post({}, { path: "/x402/jobs/1/7/auth-dry-run" });
  expect([answer.status, answer.json()]).toEqual([200, { allowed: true, mode: "public_paid" }]);
  expect((await x402.post({}, { path: "/x402/jobs/1/6/auth-dry-run" })).status).toBe(404);
});
