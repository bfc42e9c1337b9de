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
 * Refunds of paid calls that failed for good. The payment gateway holds no key, so it cannot pay refunds. Instead, an
 * operator exports a list of refunds and pays them from a multisig wallet. The refunds are closed once the chain shows the
 * transfers.
 *
 *   FAILED | DISCARDED ─export─► REFUND_PENDING ─transfer─► REFUNDED
 *
 * An exported call never runs again. There is one exception: the runner took the call, but its 2xx arrived after the export.
 * An operator then withdraws the refund, and the call becomes INJECTED. Until then no transfer closes this refund: a transfer
 * that fits it could be meant for another refund of the same amount.
 */

/**
 * Script that moves all cases of an export in one step, so that no case is in two exports, or missing from its export. A case
 * is the refund of one call.
 */
const EXPORT = defineScript({
  source: exportRefundsLua,
  keys: "export, rows, refunds, due, discarded, money, ...caseKeys(record, payment, attempts, identifier, idempotencyKey, transfer)",
  args: "prefix, now, refund, effectUnknown, by, network, ...cases(id, queue, row, line)",
  constants: { AUDIT },
  proof: "needed",
  reply: integer,
});

/**
 * Time for which an export stays sealed, so that no cases can be added to it (seal-export.lua). A late request for this
 * export has certainly ended by then.
 */
const SEALED_MS = 86_400_000;

const SEAL = defineScript({
  source: sealExportLua,
  keys: "export",
  constants: { SEALED_MS },
  proof: "needed",
  reply: nothing,
});

/** Reply of CLOSE if the case is closed now. */
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

/** Reason why the payment of a failed or discarded call cannot simply be refunded. */
type Obstacle =
  /** An attempt may have had an effect. An operator may still decide to refund the payment. */
  | "effect unknown"
  /** It is not certain that the payment was made: evidence contradicts it ("disputed"), or the chain has not shown it yet. */
  | "disputed"
  | "not confirmed"
  /** The amount is zero. Anyone can make a transfer of zero from any account, and it would close the case. */
  | "zero amount"
  | "unreadable";

/** Returns whether the state permits a refund. Even then something else may prevent it, which `obstacleOf` returns. */
export function isRefundable({ state }: Pick<PaymentSummary, "state">): boolean {
  return state === "FAILED" || state === "DISCARDED";
}

export function obstacleOf(payment: PaymentSummary): Obstacle | undefined {
  const { settlement, proven, effect, terms } = payment;
  if (!areTermsKnown(payment)) return "unreadable";
  if (BigInt(terms.amount) === 0n) return "zero amount";
  // This stays so after an operator has acknowledged the evidence: it still contradicts the payment.
  if (isContradicted(payment)) return "disputed";
  if (settlement === undefined || (!proven && settlement.by !== "operator")) return "not confirmed";
  return effect === "unknown" ? "effect unknown" : undefined;
}

/**
 * A refund in an export: payer, token and amount. All of it is stored, so that the export can be printed again unchanged even
 * if the configuration has changed.
 */
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
  /** Newest block of the chain just before the export. Only a transfer in a later block can pay one of these refunds. */
  block: bigint;
  /** Whether cases are exported whose call may have had an effect. */
  effectUnknown: boolean;
  /** Builds the audit line for an exported call. */
  lineOf: (callId: string) => MoneyAct;
};

export type Place = Pick<RefundTransfer, "transaction" | "position">;

export type Refunds = ReturnType<typeof createRefunds>;

export function createRefunds(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const [toExport, toSeal] = [EXPORT.on(redis), SEAL.on(redis)];

  function keysOfCase(payment: Payment) {
    const { paidBy: transfer, ...besides } = otherKeysOfCase(keys, payment);
    return { record: keys.record(payment.id), payment: keys.payment(payment.id), ...besides, transfer };
  }

  /** Reads an export as it was made. Undefined if the export does not exist, or expired after all its cases were closed. */
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
     * Changes each payment that can still be refunded to REFUND_PENDING, and writes its audit line, all in one step. Resolves
     * with the export. If there already is an export with this id, resolves with that one. Resolves with undefined if nothing
     * can be exported now, because each call has run since it was read, or is in another export.
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

    /**
     * Seals the export in this partition, so that no cases are added to it later. If the partition already has a part of the
     * export, resolves with that part.
     */
    async seal(id: string): Promise<RefundExport | undefined> {
      await toSeal({ export: keys.refund(id) });
      return find(id);
    },

    /** Reads the id of the call whose case this transfer has closed. */
    async closedBy(network: string, { transaction, position }: Place): Promise<string | undefined> {
      return (await redis.get(keys.refundTransfer(network, transaction, position))) ?? undefined;
    },

    /** Reads the ids of the calls whose refund is exported, but was not yet seen on the chain, in the order of their export. */
    pending: (): Promise<string[]> => redis.zrange(keys.refundsPending, "0", "-1"),

    ...createCaseEndings(partition),
  };
}

type Keys = Partition["keys"];

/**
 * Returns the keys of a case, other than those of its record and payment, that must be kept until the case is closed. They
 * then expire with its record. If the case lacks one of these keys, the payment's key is in its place.
 */
function otherKeysOfCase(keys: Keys, payment: Payment) {
  const { id, terms, settlement } = payment;
  const paidBy = (settlement && transferKey(keys, terms, settlement)) ?? keys.payment(id);
  return { attempts: keys.attempts(id), ...nameKeys(keys, payment), paidBy };
}

/** Creates the two operations that end a pending case: `close` after its transfer, and `withdraw` without one. */
function createCaseEndings({ redis, keys }: Partition) {
  const toClose = CLOSE.on(redis);
  const toWithdraw = WITHDRAW.on(redis);

  function pendingKeys(payment: Payment, { export: made }: Refund) {
    return {
      record: keys.record(payment.id),
      payment: keys.payment(payment.id),
      refunds: keys.refundsPending,
      export: keys.refund(made),
      rows: keys.refundRows(made),
      ...otherKeysOfCase(keys, payment),
      money: keys.audit("money"),
    };
  }

  return {
    /**
     * Changes REFUND_PENDING to REFUNDED because of this transfer, and writes an audit line. Does nothing if the transfer has
     * already closed another case ("taken"), or if the case can no longer be closed ("left"). The refund counts on the day
     * (UTC) of `act`.
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

    /**
     * Changes REFUND_PENDING to INJECTED, and writes an audit line, if the runner took the call after the export. For any
     * other case, changes nothing and resolves with false.
     */
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
