import { z } from "zod";
import { tokenOf } from "../config/accepted-tokens.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { createAllRefunds } from "../payments/all-refunds.ts";
import { type ClosedRefund, type Closer, createCloseRefunds } from "../payments/close-refunds.ts";
import { PaymentJournal } from "../payments/journal.ts";
import type { Payment } from "../payments/payment.ts";
import { createRefunds } from "../payments/refunds.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { askReachable } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import type { TokenSource } from "./tokens.ts";
import { isoOrNull, isoTime } from "./view.ts";

const Case = z.object({
  call_id: z.string(),
  /** Time at which the runner accepted the call although its refund was exported. */
  late_at: isoTime.nullable(),
});

/** Result of a search for refunds on the chain. */
export const RefundCheck = z
  .object({
    /** Payments whose refund was found. Their state is now `refunded`. */
    closed: z.array(
      Case.extend({ transaction: z.string(), position: z.int(), block: z.string(), from: z.string() }),
    ),
    /** Payments that no transfer has paid back yet. */
    open: z.array(Case.extend({ export: z.string() })),
    /**
     * Ids of payments whose refund cannot be seen on the chain, because their token has no node or no address in
     * `refund_from`.
     */
    not_looked_for: z.array(z.string()),
    /** Payments of `not_looked_for`, with their token. */
    unwatched: z.array(Case.extend({ network: z.string(), asset: z.string() })),
    /**
     * Reasons why the refunds of some payments could not be searched for: a node does not answer, a partition is
     * unavailable, or the stored payment cannot be read.
     */
    problems: z.array(z.string()),
  })
  .meta({ id: "RefundFindings" });
export type RefundCheck = z.infer<typeof RefundCheck>;

/** `selection` of a refund check in the audit log. */
export const ALL_PENDING = "all pending refunds";

type Deps = { partitions: Partitions; tokens: TokenSource; clock: Clock; log: Logger };

/**
 * Searches the chain for transfers that pay refunds, from the configured addresses in `refund_from`. If a transfer
 * has paid a refund, sets the state of the payment to REFUNDED, and writes a line in the audit log. Stops when the signal aborts,
 * and resolves with the result so far. Throws what `TokenSource.chains` throws.
 */
export function createCheckRefunds({ partitions, tokens, clock, log }: Deps) {
  const refunds = createAllRefunds(partitions);
  const pendings = partitions.map(createReadPending);

  /**
   * Reads the payments whose refund is exported and not yet seen on the chain. Leaves out unavailable partitions, and
   * adds them to the problems.
   */
  async function readPending(problems: string[]): Promise<Payment[]> {
    const { answers, unreached } = await askReachable(pendings, (read) => read(problems));
    problems.push(...[...unreached.values()].map(messageOf));
    return [...answers.values()].flat();
  }

  async function closeOf(
    token: AcceptedToken,
    pending: readonly Payment[],
    closed: ClosedRefund[],
    { closer, signal }: { closer: Closer; signal: AbortSignal | undefined },
  ): Promise<void> {
    const cases = pending.filter(({ terms }) => tokenOf([token], terms) !== undefined);
    const chain = tokens.chainOf(token);
    if (cases.length === 0 || chain === undefined) return;
    const closeRefunds = createCloseRefunds({ chain, refunds, clock, log, closer });
    const wanted = { asset: token.asset, senders: token.refund_from };
    for await (const found of closeRefunds({ ...wanted, cases, signal })) {
      failpoint("money.after_closed");
      closed.push(found);
    }
  }

  return async function checkRefunds(closer: Closer, signal?: AbortSignal): Promise<RefundCheck> {
    const accepted = tokens.chains();
    const problems: string[] = [];
    const pending = await readPending(problems);
    const closed: ClosedRefund[] = [];
    for (const token of accepted) {
      if (signal?.aborted) break;
      const looked = closeOf(token, pending, closed, { closer, signal });
      await looked.catch((error) => {
        if (!signal?.aborted) problems.push(`${token.symbol} on ${token.network}: ${messageOf(error)}`);
      });
    }
    return toView(pending, closed, accepted, problems);
  };
}

/**
 * Creates the function that reads these payments in one partition. It adds a line to `problems` for each payment that
 * cannot be read.
 */
function createReadPending(partition: Partition) {
  const journal = new PaymentJournal(partition);
  const refunds = createRefunds(partition);
  return async (problems: string[]): Promise<Payment[]> => {
    const pending: Payment[] = [];
    for (const id of await refunds.pending()) {
      const payment = await journal
        .findWithoutCall(id)
        .catch((error) => void problems.push(`${id}: ${messageOf(error)}`));
      if (payment !== undefined) pending.push(payment);
    }
    return pending;
  };
}

function toView(
  pending: readonly Payment[],
  closed: readonly ClosedRefund[],
  accepted: readonly AcceptedToken[],
  problems: string[],
): RefundCheck {
  const ids = new Set(closed.map(({ payment }) => payment.id));
  const left = pending.filter(({ id }) => !ids.has(id));
  const isWatched = ({ terms }: Payment): boolean => {
    const token = tokenOf(accepted, terms);
    return token?.rpc_url !== undefined && token.refund_from.length > 0;
  };
  const unwatched = left.filter((payment) => !isWatched(payment));
  return {
    closed: closed.map(({ payment, transfer: { transaction, position, block, from } }) => ({
      ...toCase(payment),
      transaction,
      position,
      block: String(block),
      from,
    })),
    open: left
      .filter(isWatched)
      .map((payment) => ({ ...toCase(payment), export: payment.refund?.export ?? "?" })),
    not_looked_for: unwatched.map(({ id }) => id),
    unwatched: unwatched.map((payment) => {
      const { network, asset } = payment.terms;
      return { ...toCase(payment), network, asset };
    }),
    problems,
  };
}

function toCase({ id, lateAt }: Payment): z.infer<typeof Case> {
  return { call_id: id, late_at: isoOrNull(lateAt) };
}
