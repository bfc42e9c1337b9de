import type { Chain } from "../chain/chain.ts";
import type { Hex } from "../chain/encoding.ts";
import type { SentTransfer } from "../chain/transfers.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { logAudited } from "../redis/audit/audit.ts";
import type { Payment } from "./payment.ts";
import type { Refunds } from "./refunds.ts";

/**
 * Fields that are the same in the audit lines of all cases that one operation closes. `run` is the id of that bulk operation.
 */
export type Closer = Pick<AuditEntry<"money">, "by" | "selection" | "run">;

/** The pending refund cases of one token, and the addresses from which their refunds are paid. */
export type TokenCases = {
  asset: string;
  /** The configured addresses from which refunds are paid. */
  senders: readonly string[];
  cases: readonly Payment[];
  /** Aborted by the caller when it needs no further results. The search of the chain for transfers then throws. */
  signal?: AbortSignal | undefined;
};

export type ClosedRefund = { payment: Payment; transfer: SentTransfer };

/**
 * Creates the function that closes refund cases with transfers that the chain shows, and yields each closed case with its
 * transfer. It searches for transfers from the configured senders, up to the depth in blocks at which payments count as
 * confirmed. A transfer closes the first case that fits. It must have the case's token, go to the case's payer with exactly
 * its amount, and be in a block after the case's export. Any number of processes may run this at once. Throws
 * `payment.unavailable`.
 */
export function createCloseRefunds({
  chain,
  refunds,
  clock,
  log,
  closer,
}: {
  chain: Pick<Chain, "freshHead" | "transfersFrom" | "confirmations">;
  refunds: Pick<Refunds, "close">;
  clock: Clock;
  log: Logger;
  closer: Closer;
}) {
  return async function* closeRefunds({
    asset,
    senders,
    cases,
    signal,
  }: TokenCases): AsyncGenerator<ClosedRefund> {
    const toBlock = (await chain.freshHead()).number - BigInt(chain.confirmations);
    const open = new Set(cases.filter(({ lateAt }) => lateAt === undefined));
    const fromBlock = [...open].reduce((least, { refund }) => {
      const block = BigInt(refund?.block ?? toBlock) + 1n;
      return block < least ? block : least;
    }, toBlock + 1n);
    const fits = (sent: Omit<SentTransfer, "position">) => [...open].filter((each) => isRefundOf(sent, each));
    const range = { asset: asset as Hex, senders: senders as readonly Hex[], fromBlock, toBlock, signal };
    for await (const transfer of chain.transfersFrom(range, (sent) => fits(sent).length > 0)) {
      const payment = await closeOne(fits(transfer), transfer, open);
      if (payment !== undefined) yield { payment, transfer };
    }
  };

  async function closeOne(
    fitting: readonly Payment[],
    { transaction, position, block, from }: SentTransfer,
    open: Set<Payment>,
  ): Promise<Payment | undefined> {
    for (const payment of fitting) {
      const act: AuditEntry<"money"> = {
        at: clock(),
        action: "close_refund",
        callId: payment.id,
        ...closer,
        transaction,
      };
      const found = await refunds.close(payment, { transaction, position, block: String(block), from }, act);
      if (found === "taken") return undefined;
      open.delete(payment);
      if (found === "left") continue;
      logAudited(log, act);
      return payment;
    }
    return undefined;
  }
}

/**
 * Returns whether the transfer refunds this payment. It must go to the payment's payer, with exactly its amount, in a block
 * after the refund was exported.
 */
export function isRefundOf(
  { to, from, value, block }: Omit<SentTransfer, "position">,
  { terms, refund }: Pick<Payment, "terms" | "refund">,
): boolean {
  const payer = terms.payer.toLowerCase();
  const isLater = refund !== undefined && block > BigInt(refund.block);
  return isLater && to === payer && from !== payer && value === BigInt(terms.amount);
}
