import { z } from "zod";
import { RECORD } from "../call/record-state.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, integer, nothing, oneOf, optional } from "../redis/reply.ts";
import { dayOf } from "../telemetry/series/series.ts";
import { SERIES } from "../telemetry/series/write.ts";
import closeCaseLua from "./close-case.lua";
import exportRefundsLua from "./export-refunds.lua";
import { nameKeys, paidQueueOf, transferKey } from "./journal.ts";
import { areTermsKnown, isContradicted, type PaymentSummary } from "./list.ts";
import { PAYMENT_STATES, type Payment, type Refund, type RefundTransfer, revenueOf } from "./payment.ts";
import { TRANSFER_TAKEN } from "./scripts.ts";
import sealExportLua from "./seal-export.lua";
import withdrawCaseLua from "./withdraw-case.lua";

/*
 * Refunds of paid calls that failed for good. The gateway holds no key: an operator exports who is to get what, a multisig of his sends it,
 * and the chain shows that it did.
 *
 *   FAILED | DISCARDED ─export─► REFUND_PENDING ─transfer─► REFUNDED
 *
 * An exported call never runs again, and there is no way back, but one: a call that the runner took all the same, because its 2xx came too
 * late, is withdrawn by an operator and INJECTED. No transfer closes such a case, lest it take the refund of another one.
 */

/** An export moves all its cases at once, so that no case is ever in two exports, and none that was moved is outside of its export. */
const EXPORT = defineScript({
  source: exportRefundsLua,
  keys: "export, rows, refunds, due, discarded, money, ...caseKeys(record, payment, attempts, identifier, idempotencyKey, transfer)",
  args: "prefix, now, refund, effectUnknown, by, network, ...cases(id, queue, row, line)",
  constants: { AUDIT },
  proof: "needed",
  reply: integer,
});

/** Longer than any request for an export that is on its way. */
const SEALED_MS = 86_400_000;

const SEAL = defineScript({
  source: sealExportLua,
  keys: "export",
  constants: { SEALED_MS },
  proof: "needed",
  reply: nothing,
});

/** What CLOSE answers. */
const CLOSED = "CLOSED";

const CLOSE = defineScript({
  source: closeCaseLua,
  keys: "record, payment, refunds, export, rows, attempts, identifier, idempotencyKey, paidBy, refundedBy, refunded, money",
  args: "id, now, transfer, row, amount, line",
  constants: { AUDIT, RECORD, CLOSED, TRANSFER_TAKEN, SERIES },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES, CLOSED, TRANSFER_TAKEN)),
});

const WITHDRAW = defineScript({
  source: withdrawCaseLua,
  keys: "record, payment, refunds, export, rows, attempts, identifier, idempotencyKey, paidBy, money",
  args: "id, now, line",
  constants: { AUDIT, RECORD },
  proof: "needed",
  reply: flag,
});

/** Why a payment whose call failed, or was discarded, is not simply to be paid back. */
type Obstacle =
  /** An attempt may have had its effect. An operator may decide to pay it back all the same. */
  | "effect unknown"
  /** The money may not have come. */
  | "disputed"
  | "not confirmed"
  /** Anybody can move nothing from anybody, and such a transfer would close the case. */
  | "zero amount"
  | "unreadable";

/** The states in which a payment can be paid back. */
export function isRefundable({ state }: Pick<PaymentSummary, "state">): boolean {
  return state === "FAILED" || state === "DISCARDED";
}

export function obstacleOf(payment: PaymentSummary): Obstacle | undefined {
  const { settlement, proven, effect, terms } = payment;
  if (!areTermsKnown(payment)) return "unreadable";
  if (BigInt(terms.amount) === 0n) return "zero amount";
  // It stays contradicted after an operator has seen that.
  if (isContradicted(payment)) return "disputed";
  if (settlement === undefined || (!proven && settlement.by !== "operator")) return "not confirmed";
  return effect === "unknown" ? "effect unknown" : undefined;
}

/** Who gets what. It is kept as it was exported, so that it can be printed again, whatever the configuration says by then. */
const Row = z.object({
  call: z.string(),
  asset: z.string(),
  symbol: z.string(),
  decimals: z.number(),
  /** Lower case. */
  payer: z.string(),
  /** In the token's smallest unit. */
  amount: z.string(),
});
export type RefundRow = z.infer<typeof Row>;

export type RefundExport = {
  id: string;
  /** Unix ms. */
  at: number;
  /** `user@host`. */
  by: string;
  /** CAIP-2. */
  network: string;
  rows: RefundRow[];
};

type MoneyAct = AuditEntry<"money">;

export type NewExport = Omit<RefundExport, "rows"> & {
  cases: readonly { payment: Payment; row: RefundRow }[];
  /** The head of the chain: only a transfer in a later block closes one of the cases. */
  block: bigint;
  /** Whether cases are exported of which the effect is unknown. */
  effectUnknown: boolean;
  /** The line of the audit for each call that is exported. */
  lineOf: (callId: string) => MoneyAct;
};

export type Place = Pick<RefundTransfer, "transaction" | "position">;

export type Refunds = ReturnType<typeof createRefunds>;

export function createRefunds(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const [toExport, toSeal] = [EXPORT.on(redis), SEAL.on(redis)];

  function keysOfCase(payment: Payment) {
    const { paidBy: transfer, ...besides } = keysBeside(keys, payment);
    return { record: keys.record(payment.id), payment: keys.payment(payment.id), ...besides, transfer };
  }

  /** An export as it was made. Undefined if there is none, or all its cases were closed long ago. */
  async function find(id: string): Promise<RefundExport | undefined> {
    const [fields, rows] = await Promise.all([
      redis.hgetall(keys.refund(id)),
      redis.lrange(keys.refundRows(id), 0, -1),
    ]);
    if (rows.length === 0) return undefined;
    const { at, by = "", network = "" } = fields;
    return { id, at: Number(at), by, network, rows: rows.map(toRow) };
  }

  return {
    /**
     * Moves each of the payments that is a case to REFUND_PENDING, with its line of the audit, all in one step, and resolves with the
     * export, or with one that was made under its id before; undefined if none is a case any more, because it ran meanwhile or another export
     * has it. Nothing is exported then.
     */
    async export(made: NewExport): Promise<(RefundExport & { isNew: boolean }) | undefined> {
      const { id, at, by, network, block, cases, effectUnknown, lineOf } = made;
      const { refundsPending: refunds, paymentsDue: due, paymentsDiscarded: discarded } = keys;
      const caseKeys = cases.map(({ payment }) => keysOfCase(payment));
      const touched = {
        export: keys.refund(id),
        rows: keys.refundRows(id),
        refunds,
        due,
        discarded,
        money: keys.audit("money"),
        caseKeys,
      };
      const refund = JSON.stringify({ export: id, at, block: String(block) });
      const words = cases.map(({ payment, row }) => ({
        id: payment.id,
        queue: paidQueueOf(payment.terms),
        row: JSON.stringify(row),
        line: toLine(lineOf(payment.id)),
      }));
      const moved = await toExport(touched, {
        prefix,
        now: at,
        refund,
        effectUnknown,
        by,
        network,
        cases: words,
      });
      const found = await find(id);
      return found && { ...found, isNew: moved > 0 };
    },

    find,

    /** Prevents a later part of an export in this partition. Resolves with the part that it has here already, if there is one. */
    async seal(id: string): Promise<RefundExport | undefined> {
      await toSeal({ export: keys.refund(id) });
      return find(id);
    },

    /** The id of the call whose case this transfer has closed. */
    async closedBy(network: string, { transaction, position }: Place): Promise<string | undefined> {
      return (await redis.get(keys.refundTransfer(network, transaction, position))) ?? undefined;
    },

    /** The ids of the calls whose refund is exported and not seen yet, in the order in which they were exported. */
    pending: (): Promise<string[]> => redis.zrange(keys.refundsPending, "0", "-1"),

    ...createEnds(partition),
  };
}

type Keys = Partition["keys"];

/** What expires with the record of a closed case, and does not expire before. A key that there is not repeats the payment's. */
function keysBeside(keys: Keys, payment: Payment) {
  const { id, terms, settlement } = payment;
  const paidBy = (settlement && transferKey(keys, terms, settlement)) ?? keys.payment(id);
  return { attempts: keys.attempts(id), ...nameKeys(keys, payment), paidBy };
}

/** What ends a pending case. */
function createEnds({ redis, keys }: Partition) {
  const toClose = CLOSE.on(redis);
  const toWithdraw = WITHDRAW.on(redis);

  function pendingKeys(payment: Payment, { export: made }: Refund) {
    return {
      record: keys.record(payment.id),
      payment: keys.payment(payment.id),
      refunds: keys.refundsPending,
      export: keys.refund(made),
      rows: keys.refundRows(made),
      ...keysBeside(keys, payment),
      money: keys.audit("money"),
    };
  }

  return {
    /**
     * REFUND_PENDING becomes REFUNDED by this transfer, with its line in the audit, unless the transfer has closed another case, or the case
     * was closed. The refund counts on this day (UTC).
     */
    async close(
      payment: Payment,
      transfer: RefundTransfer,
      act: MoneyAct,
    ): Promise<"closed" | "taken" | "left"> {
      const { id, terms, refund } = payment;
      if (refund === undefined) return "left";
      const { transaction, position } = transfer;
      const { row, amount } = revenueOf(payment);
      const refundedBy = keys.refundTransfer(terms.network, transaction, position);
      const touched = { ...pendingKeys(payment, refund), refundedBy, refunded: keys.refunded(dayOf(act.at)) };
      const answer = await toClose(touched, {
        id,
        now: act.at,
        transfer: JSON.stringify(transfer),
        row,
        amount,
        line: toLine(act),
      });
      if (answer === CLOSED) return "closed";
      return answer === TRANSFER_TAKEN ? "taken" : "left";
    },

    /** REFUND_PENDING becomes INJECTED, with its line in the audit, if the runner took the call after the export. False for any other. */
    async withdraw(payment: Payment, act: MoneyAct): Promise<boolean> {
      const { id, refund } = payment;
      if (refund === undefined) return false;
      return await toWithdraw(pendingKeys(payment, refund), { id, now: act.at, line: toLine(act) });
    },
  };
}

function toRow(text: string): RefundRow {
  const parsed = Row.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data;
  throw new AppError("record.unreadable", { reason: "a row of the export cannot be read" });
}
