import { tokenAbi } from "../../../services/dev/chain/contracts/token.ts";
import { Refused } from "../../../services/producer/producer.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { createAllPayments } from "../../../shared/payments/all-payments.ts";
import type { Payments } from "../../fixtures/payments.ts";
import { asUser } from "../../fixtures/redis.ts";
import { PRICE, x402Table } from "../../fixtures/x402.ts";

/** Address that pays refunds, as the configuration says. */
export const SAFE: `0x${string}` = `0x${"5a".repeat(20)}`;

/** Configures the address that pays refunds. Without it, refunds could not be seen. */
export function configureRefunds({ postern, redis, devnet }: Payments, token: object = {}): void {
  postern.configure({
    postern: { redis: { url: asUser(redis.url, "operator") } },
    x402: x402Table({ devnet, token: { refund_from: [SAFE], ...token } }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
}

/**
 * Buys calls, one for each payer if given, that their runner refuses. Resolves with their ids once all have failed
 * and the chain has shown the payments.
 */
export async function refundable(
  payments: Payments,
  count = 1,
  failure: Error = new Refused("no such job"),
  payers = Array.from({ length: count }, () => payments.payer),
): Promise<string[]> {
  const ids: string[] = [];
  for (const payer of payers) ids.push(await payments.buy(payer));
  await payments.startProducer(() => Promise.reject(failure));
  await eventually("all have failed, and are proven", async () => {
    for (const id of ids) await payments.gateway.journal.reschedule(id, 0);
    const found = await createAllPayments(payments.partitions).read(ids);
    return found.every((each) => each?.state === "FAILED" && each.proven);
  });
  return ids;
}

/** Pays the price of one call to a payer, from the address that pays refunds. Resolves with the transaction. */
export async function payBack(
  { devnet: { chain, token }, ...payments }: Payments,
  to = payments.payer,
): Promise<string> {
  await chain.mint(SAFE, PRICE);
  await chain.client.setBalance({ address: SAFE, value: 10n ** 18n });
  await chain.client.impersonateAccount({ address: SAFE });
  const args = [to.address, PRICE] as const;
  const call = { address: token, abi: tokenAbi, functionName: "transfer", args, account: SAFE } as const;
  const hash = await chain.client.writeContract(call);
  await chain.client.waitForTransactionReceipt({ hash });
  return hash;
}
