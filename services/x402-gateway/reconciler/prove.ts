import type { Chain } from "../../../shared/ethereum/chain.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { toAuthorization } from "../../../shared/payments/payment.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { Witness } from "../chains.ts";
import type { Facilitators } from "../facilitator/pool.ts";

export type ProveDeps = {
  journal: PaymentJournal;
  facilitators: Facilitators;
  chainOf: (payment: Payment) => Witness;
  clock: Clock;
  log: Logger;
};

/**
 * Checks on the chain what a facilitator has said: true once there is nothing more to find out. A payment that is
 * contradicted keeps its call, which the runner may have; it is said in the log and in the journal.
 */
export async function prove(deps: ProveDeps, payment: Payment): Promise<boolean> {
  const chain = deps.chainOf(payment);
  if (payment.proven || payment.reason !== undefined || chain === "trusted") return true;
  if (chain === "unknown") return false;
  const { settlement } = payment;
  if (settlement !== undefined && (await isShown(chain, payment))) {
    await deps.journal.proven(payment, settlement.transaction);
    return true;
  }
  const evidence = await chain.evidenceOf(toAuthorization(payment.terms), payment.sinceBlock);
  if (evidence.kind === "open") {
    if (evidence.seen === undefined) await payUnlessPaid(deps, payment, chain);
    return false;
  }
  if (evidence.kind === "paid") {
    await deps.journal.proven(payment, evidence.transaction);
    return true;
  }
  const reason = `the call was given to the runner, and the chain says: ${evidence.reason}`;
  await deps.journal.disputed(payment.id, reason);
  deps.log.error("payment.contradicted", { callId: payment.id, payer: payment.terms.payer, reason });
  return true;
}

/** One question to the node, where evidence takes several: what a facilitator named is mostly there. */
async function isShown(chain: Chain, { settlement, terms }: Payment): Promise<boolean> {
  if (settlement === undefined) return false;
  return chain.showsPaid(settlement.transaction as `0x${string}`, toAuthorization(terms));
}

/** A reorganisation may have taken the transaction away; the authorization can be used again as long as it lasts. */
async function payUnlessPaid(deps: ProveDeps, payment: Payment, chain: Chain): Promise<void> {
  const { request, settlement, terms } = payment;
  const isOver = deps.clock() / 1000 >= Number(terms.valid_before);
  if (request === undefined || settlement === undefined || isOver) return;
  const block = await chain.blockPaidIn(settlement.transaction as `0x${string}`, toAuthorization(terms));
  if (block !== undefined) return;
  const outcome = await deps.facilitators.settle(request, payment.facilitator);
  deps.log.warn("payment.vanished", { callId: payment.id, settledAgain: outcome.kind });
}
