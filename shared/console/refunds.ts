import { z } from "zod";
import { CALL_ID, NOT_A_CALL_ID } from "../call/call-id.ts";
import { tokenOf } from "../config/accepted-tokens.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { createAllPayments } from "../payments/all-payments.ts";
import { createAllRefunds } from "../payments/all-refunds.ts";
import { PaymentJournal } from "../payments/journal.ts";
import type { PaymentSummary } from "../payments/list.ts";
import type { Payment, PaymentState } from "../payments/payment.ts";
import { EXPORT_ID, EXPORTED_MAX, NOT_AN_EXPORT_ID, newExportId } from "../payments/refund-export.ts";
import { isRefundable, obstacleOf, type RefundExport, type RefundRow } from "../payments/refunds.ts";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { toIso } from "../platform/time/iso.ts";
import type { OperatorDeps } from "../queue/operate.ts";
import { logAudited } from "../redis/audit/audit.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { PaymentView, toPaymentView } from "./payment-view.ts";
import { PaymentPlace, unknownPayment } from "./payments.ts";
import { createRefundReport } from "./refund-report.ts";
import { decimalsFrom, type TokenSource } from "./tokens.ts";
import { count, isoOrNull, isoTime } from "./view.ts";

/** A payment whose call failed or was discarded, or whose refund is exported. */
export const RefundCase = PaymentView.extend({
  /** Reason why the money should not simply be paid back. Null without such a reason, or if the refund is exported. */
  obstacle: z.string().nullable(),
}).meta({ id: "RefundCase" });
export type RefundCase = z.infer<typeof RefundCase>;

export const RefundPage = z.object({ payments: z.array(RefundCase), next });
export type RefundPage = z.infer<typeof RefundPage>;

export const ExportOrder = z.strictObject({
  /** Id that the client chooses, so that it can find the export if the answer was lost. */
  id: z.string().regex(EXPORT_ID, NOT_AN_EXPORT_ID).optional(),
  /** Ids of the calls whose payments the operator refunds. All these payments must be on one network. */
  call_ids: z.array(z.string().regex(CALL_ID, NOT_A_CALL_ID)).min(1).max(EXPORTED_MAX),
  /** Whether to include payments whose call may have had an effect, because one of its attempts may have done the job. */
  effect_unknown: z.boolean().default(false),
});
export type ExportOrder = z.infer<typeof ExportOrder>;

/** The exported recipients and amounts. Amounts are in the token's smallest unit. */
export const RefundExportView = z
  .object({
    id: z.string(),
    at: isoTime,
    by: z.string(),
    /** Network of all these payments, as a CAIP-2 id. */
    network: z.string(),
    rows: z.array(
      z.object({
        call_id: z.string(),
        asset: z.string(),
        symbol: z.string(),
        decimals: count,
        payer: z.string(),
        amount: z.string(),
        /** Current state of the payment; null if the payment is no longer stored. */
        state: z.string().nullable(),
        /** Time at which the runner accepted the call although its refund was exported. */
        late_at: isoTime.nullable(),
      }),
    ),
  })
  .meta({ id: "RefundExport" });
export type RefundExportView = z.infer<typeof RefundExportView>;

export type RefundsApi = {
  /** Lists refunds, newest first. */
  page(page: PageRequest): Promise<RefundPage>;
  /** Writes all refunds as a CSV table for bookkeeping, in pieces. It changes nothing. */
  report(signal?: AbortSignal): AsyncIterable<string>;
  /**
   * Exports the refunds of these payments, as far as they are still due. Each partition writes its refunds and their audit
   * lines in one step. A repeat with the same id returns the same export. Throws `payment.undecidable` if no refund is due, or
   * if the export with this id has other payments. Throws `token.unconfigured` if the configuration lets no search of the chain
   * ever find the refunds. Throws `request.malformed` if the payments are on several networks, and `payment.unavailable` if a
   * node fails.
   */
  export(order: ExportOrder, reason: string): Promise<RefundExportView>;
  /** Shows an export. Throws `refund.unknown`. */
  show(exportId: string): Promise<RefundExportView>;
  /**
   * Withdraws an exported refund. Throws `payment.unknown`, and `payment.undecidable` unless the runner has accepted
   * the call since the export.
   */
  withdraw(id: string, reason: string): Promise<void>;
};

/** States of the payments in the list, which is sorted by time and not by state. */
const STATES: readonly PaymentState[] = ["FAILED", "DISCARDED", "REFUND_PENDING"];

type Deps = OperatorDeps & { tokens: TokenSource };

/** Implements the operations on refunds. Each act writes a line in the audit log. */
export function createRefundsApi({ tokens, ...deps }: Deps): RefundsApi {
  const { partitions, clock, log, by } = deps;
  const payments = createAllPayments(partitions);
  const journals = partitions.map((partition) => new PaymentJournal(partition));
  const refunds = createAllRefunds(partitions);
  const decimalsOf = decimalsFrom(tokens);

  function toCase(payment: PaymentSummary): RefundCase {
    const obstacle = isRefundable(payment) ? obstacleOf(payment) : undefined;
    return { ...toPaymentView(payment, decimalsOf), obstacle: obstacle ?? null };
  }

  async function toExportView({ id, at, by: who, network, rows }: RefundExport): Promise<RefundExportView> {
    const found = await payments.read(rows.map(({ call }) => call));
    const views = rows.map(({ call, ...row }, i) => ({
      call_id: call,
      ...row,
      state: found[i]?.state.toLowerCase() ?? null,
      late_at: isoOrNull(found[i]?.lateAt),
    }));
    return { id, at: toIso(at), by: who, network, rows: views };
  }

  return {
    async page({ limit, cursor }) {
      const found = await payments.page(
        { states: STATES },
        { after: fromCursor(PaymentPlace, cursor), limit },
      );
      return { payments: found.payments.map(toCase), next: toCursor(found.next) };
    },

    report: createRefundReport(partitions, decimalsOf),

    async export({ id = newExportId(), call_ids: ids, effect_unknown: effectUnknown }, reason) {
      const known = await refunds.find(id);
      if (known !== undefined) return toExportView(requireSame(known, ids));
      const accepted = tokens.chains();
      const chosen = (await payments.read(ids)).filter((payment) => payment !== undefined);
      requireClosable(chosen, accepted);
      const network = networkOf(chosen);
      if (network === undefined) throw noneDue();
      const found = await Promise.all(ids.map(async (id) => journals.of(id).findWithoutCall(id)));
      const cases = found.flatMap((payment) => toExported(payment, accepted));
      const block = await headOf(tokens, new Set(cases.map(({ token }) => token)));
      const at = clock();
      const line = { at, action: "refund", by, selection: `export ${id}`, reason } as const;
      const lineOf = (callId: string) => ({ ...line, callId });
      const made = await refunds
        .export({ id, at, by, network, block, cases, effectUnknown, lineOf })
        .catch((cause: unknown) => {
          const why = `it is unknown whether export ${id} was made: ${messageOf(cause)}`;
          const detail = `${why}; print it with --export ${id} before you make another one`;
          throw AppError.public("queue.unavailable", detail, { cause });
        });
      if (made === undefined) throw noneDue();
      failpoint("money.after_exported");
      for (const call of made.moved) logAudited(log, lineOf(call));
      return toExportView(requireSame(made, ids));
    },

    async show(exportId) {
      const made = await refunds.find(exportId);
      if (made !== undefined) return toExportView(made);
      const detail = `there is no export ${exportId}, or it was fully refunded and is no longer kept`;
      throw AppError.public("refund.unknown", detail);
    },

    async withdraw(id, reason) {
      const payment = await journals.of(id).findWithoutCall(id);
      if (payment === undefined) throw unknownPayment(id);
      const act = { at: clock(), action: "withdraw", callId: id, by, selection: "by id", reason } as const;
      if (!(await refunds.withdraw(payment, act))) {
        const detail = `${id} is ${payment.state.toLowerCase()}: ${WITHDRAWABLE}; nothing was changed`;
        throw AppError.public("payment.undecidable", detail);
      }
      logAudited(log, act);
    },
  };
}

function noneDue(): AppError {
  const detail = "no refund can be exported for these payments; nothing was exported";
  return AppError.public("payment.undecidable", detail);
}

const WITHDRAWABLE = "only a pending refund whose call was injected after the export can be withdrawn";

/**
 * Returns the export with the requested id, which an earlier request may have made. Throws if the export has a payment that
 * this request does not name, because the earlier request was then a different one.
 */
function requireSame(made: RefundExport, ids: readonly string[]): RefundExport {
  const other = made.rows.find(({ call }) => !ids.includes(call));
  if (other === undefined) return made;
  const detail = `export ${made.id} was made before and also has ${other.call}, which is not in this request; nothing was exported`;
  throw AppError.public("payment.undecidable", detail);
}

function toExported(payment: Payment | undefined, accepted: readonly AcceptedToken[]) {
  const token = payment && tokenOf(accepted, payment.terms);
  if (payment === undefined || token === undefined) return [];
  const { asset, symbol, payer, amount } = payment.terms;
  const row: RefundRow = { call: payment.id, asset, symbol, decimals: token.decimals, payer, amount };
  return [{ payment, row, token }];
}

/** Returns the network of the payments; undefined without payments. Throws if they are on several networks. */
function networkOf(payments: readonly PaymentSummary[]): string | undefined {
  const [network, ...others] = [...new Set(payments.map(({ terms }) => terms.network))];
  if (others.length === 0) return network;
  const all = [network, ...others].join(", ");
  throw AppError.public(
    "request.malformed",
    `an export must be of one network, but these payments are on ${all}`,
  );
}

/**
 * Throws if no refund check could ever find the refund of one of these payments, for example because its token has no node. The
 * payment would stay pending forever.
 */
function requireClosable(payments: readonly PaymentSummary[], accepted: readonly AcceptedToken[]): void {
  const problems = payments.map((payment) => problemOf(payment, tokenOf(accepted, payment.terms)));
  const [problem] = problems.filter((each) => each !== undefined);
  if (problem === undefined) return;
  throw AppError.public("token.unconfigured", `x402.toml: ${problem}; nothing was exported`);
}

function problemOf({ terms }: PaymentSummary, token: AcceptedToken | undefined): string | undefined {
  const name = `token ${terms.asset} on ${terms.network}`;
  if (token === undefined) return `${name} is not among the accepted_tokens`;
  if (token.rpc_url === undefined)
    return `${name} has no rpc_url, so its refund could not be seen on the chain`;
  if (token.refund_from.length > 0) return undefined;
  return `${name} has no refund_from: list the addresses that pay refunds, such as your multisig's`;
}

/**
 * Returns the newest block that any node of these tokens reports. A refund is paid after its export, so only a transfer in a
 * later block can be this refund.
 */
async function headOf(tokens: TokenSource, exported: ReadonlySet<AcceptedToken>): Promise<bigint> {
  const chains = [...exported].flatMap((token) => tokens.chainOf(token) ?? []);
  const heads = await Promise.all(chains.map((chain) => chain.freshHead()));
  return heads.reduce((most, { number }) => (number > most ? number : most), 0n);
}
