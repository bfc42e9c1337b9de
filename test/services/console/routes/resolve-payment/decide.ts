import type { OperatorFixture } from "../../../../fixtures/console.ts";
import type { Payments } from "../../../../fixtures/payments.ts";

/** Makes a payment that is in review although it was made, because its node had no logs. */
export async function paidInReview(payments: Payments): Promise<{ id: string; transaction: string }> {
  const nonce = await payments.payOnChain();
  const id = await payments.claim({ nonce });
  await payments.gateway.journal.markForReview(id, "the node lacks logs");
  const transfers = await payments.devnet.chain.transfers(payments.devnet.seller);
  const transaction = transfers.find((each) => each.nonce === nonce)?.transaction;
  return { id, transaction: String(transaction) };
}

/** Returns a function that sends decisions to a service that knows the tokens. */
export function decideOn({ postern }: Payments, fixture: OperatorFixture) {
  return async (id: string, decision: object) => {
    const { post } = await fixture.start({ configDir: postern.configDir });
    return post(`/api/v1/payments/${id}/resolve`, decision);
  };
}
