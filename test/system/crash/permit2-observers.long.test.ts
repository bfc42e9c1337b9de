import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { signOffer } from "../../fixtures/x402.ts";
import { idOf, type PaymentName, paymentIn } from "../../support/books.ts";
import { send } from "../../support/http.ts";
import type { SignedPermit2 } from "../../support/permit2.ts";
import { type Customer, newCustomer, sellingToAllKinds, transfersOfAllKinds } from "../payers.ts";

/*
 * A gateway dies between the claim of a permit and its settle. Before another gateway looks at the payment, another party uses the permit's nonce: an observer who has seen the permit, or its payer.
 */

const PATH = "/x402/jobs/1/1";

const devnet = useDevnet();
/** The first gateway is killed; the second one is another replica. */
const stack = useStack(() => ({
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  x402: sellingToAllKinds(devnet),
}));
let gateway: Part;
let replica: Part;
beforeAll(async () => {
  [gateway, replica] = stack.x402 as [Part, Part];
  await Promise.all(stack.x402.map(untilSelling));
});
afterEach(() => devnet.control.clearFaults());

type Claimed = { id: string; customer: Customer; header: Record<string, string>; signed: SignedPermit2 };

/** Creates a Permit2 payment that a gateway has claimed, and that no facilitator settles. */
async function claimedByKilledGateway(): Promise<Claimed> {
  await devnet.control.fault({ on: "settle", kind: "drop" });
  await gateway.restart({ POSTERN_FAILPOINT: "x402.after_claim" });
  await untilSelling(gateway);
  const customer = await newCustomer(devnet, "permit2");
  const challenge = await send(gateway.address, { path: PATH, body: "" });
  const header = await signOffer(challenge, { payer: customer.payer }, customer.asset);
  const died = gateway.process.exit;
  await expect(send(gateway.address, { path: PATH, headers: header, body: "buy" })).rejects.toThrow();
  await died;
  const { chainId, token: asset } = devnet;
  const id = idOf({ chainId, asset }, paymentIn(header) as PaymentName);
  expect((await find(id))?.state).toBe("SETTLING");
  return { id, customer, header, signed: permitIn(header) };
}

function permitIn(header: Record<string, string>): SignedPermit2 {
  return JSON.parse(Buffer.from(header["PAYMENT-SIGNATURE"] ?? "", "base64").toString()).payload;
}

const find = (id: string) => new PaymentJournal(stack.redis.partition).find(id);

async function chargesOf({ customer: { payer } }: Claimed) {
  return (await transfersOfAllKinds(devnet)).filter(({ from }) => from === payer.address.toLowerCase());
}

/** Resolves with the payment once the other replica has brought it into this state. */
async function inState({ id }: Claimed, state: PaymentState) {
  return eventually(`the payment is ${state}`, async () => {
    await stack.redis.client.zadd(keys.paymentsDue, "XX", 0, id);
    const payment = await find(id);
    return payment?.state === state ? payment : undefined;
  });
}

test("a permit is one charge and one job if an observer settles it after its gateway was killed", async () => {
  const claimed = await claimedByKilledGateway();
  const transaction = await devnet.chain.permit2.settle(claimed.signed, { suffix: "0x80218021" });
  const { settlement } = await inState(claimed, "INJECTED");
  expect(settlement).toMatchObject({ transaction, by: "chain" });
  const again = await send(replica.address, { path: PATH, headers: claimed.header, body: "buy" });
  expect([again.status, again.json()["call_id"]]).toEqual([202, claimed.id]);
  expect(stack.effectsOf([claimed.id])).toEqual([1]);
  expect((await chargesOf(claimed)).map((charge) => charge.transaction)).toEqual([transaction]);
});

describe("long after the expiry of a permit", () => {
  let wrapped: Claimed;
  let invalidated: Claimed;
  // These payments are made together, because afterwards the chain's time is ahead of ours, and new payments would be
  // expired.
  beforeAll(async () => {
    wrapped = await claimedByKilledGateway();
    await devnet.chain.permit2.settle(wrapped.signed, { wrapped: true });
    invalidated = await claimedByKilledGateway();
    const nonce = BigInt(invalidated.signed.permit2Authorization.nonce);
    await devnet.chain.permit2.invalidate(invalidated.customer.payer, nonce);
    await devnet.chain.increaseTime(600);
    await devnet.chain.finalize();
  });

  /** Checks that the payment stays in review, however often a gateway looks at it. */
  async function expectReview(claimed: Claimed, charges: number): Promise<void> {
    const { reason } = await inState(claimed, "REVIEW");
    expect(reason).toContain("the permit's nonce is used");
    await gateway.restart();
    await untilSelling(gateway);
    for (const { address } of stack.x402) {
      const again = await send(address, { path: PATH, headers: claimed.header, body: "buy" });
      expect([again.status, again.json()["code"]]).toEqual([503, "payment.in_review"]);
    }
    expect((await find(claimed.id))?.state).toBe("REVIEW");
    expect(stack.effectsOf([claimed.id])).toEqual([0]);
    expect(await chargesOf(claimed)).toHaveLength(charges);
  }

  test("a permit is in review, neither void nor a job, if another contract sends it to the proxy after its gateway was killed", () =>
    expectReview(wrapped, 1));

  test("a permit is in review, neither void nor a job, if its payer invalidates the nonce after its gateway was killed", () =>
    expectReview(invalidated, 0));
});
