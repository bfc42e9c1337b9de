import type { SettleResponse, SupportedKind, SupportedResponse, VerifyResponse } from "@x402/core/types";
import type { FacilitatorAnswer } from "./client.ts";
import { isOpenSettlement, isOperatorFault, isVerifyFailure } from "./reasons.ts";

export type Verified =
  | { kind: "valid" }
  /** `fault` says who can change it; the reason is the facilitator's own word. */
  | { kind: "refused"; reason: string; fault: "payer" | "operator" };

export type Settled =
  | { kind: "settled"; transaction: string }
  /** The facilitator says that it did not settle, which proves nothing: the transaction may have been sent. */
  | { kind: "refused"; reason: string; transaction?: string }
  | { kind: "unknown"; reason: string; transaction?: string };

/** No judgement on the payment: another facilitator, or the same one later, may have one. */
export type NoAnswer = Extract<FacilitatorAnswer, { kind: "none" }>;

const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;
const REASON_CHARS_MAX = 200;

/** An answer as the SDK types it, of which nothing is certain. */
type Said<Response> = { readonly [Key in keyof Response]?: unknown };

export function readVerified(answer: FacilitatorAnswer): Verified | NoAnswer {
  if (answer.kind === "none") return answer;
  const { isValid, invalidReason }: Said<VerifyResponse> = answer.value;
  if (isValid === true && isSuccess(answer.status)) return { kind: "valid" };
  const reason = reasonOf(invalidReason);
  if (isValid !== false || isVerifyFailure(reason)) return noAnswer(answer, invalidReason);
  return { kind: "refused", reason, fault: isOperatorFault(reason) ? "operator" : "payer" };
}

export function readSettled(answer: FacilitatorAnswer): Settled {
  if (answer.kind === "none") return { kind: "unknown", reason: answer.reason };
  const said: Said<SettleResponse> = answer.value;
  const transaction = transactionIn(said);
  if (said.success === true && isSuccess(answer.status)) return readSuccess(transaction);
  const sent = transaction !== undefined && { transaction };
  const reason = reasonOf(said.errorReason);
  if (said.success !== false) return { kind: "unknown", reason: noAnswer(answer, reason).reason, ...sent };
  return { kind: isOpenSettlement(reason) ? "unknown" : "refused", reason, ...sent };
}

function readSuccess(transaction: string | undefined): Settled {
  return transaction === undefined
    ? { kind: "unknown", reason: "success without a transaction" }
    : { kind: "settled", transaction };
}

function transactionIn({ transaction }: Said<SettleResponse>): string | undefined {
  return typeof transaction === "string" && TRANSACTION.test(transaction) ? transaction : undefined;
}

/** What a facilitator settles; kinds that do not read are left out. */
export function readSupported(answer: FacilitatorAnswer): readonly SupportedKind[] | NoAnswer {
  if (answer.kind === "none") return answer;
  const { kinds }: Said<SupportedResponse> = answer.value;
  if (!isSuccess(answer.status) || !Array.isArray(kinds)) return noAnswer(answer, undefined);
  return kinds.filter(isKind);
}

function isKind(kind: unknown): kind is SupportedKind {
  const { x402Version, scheme, network } = (kind ?? {}) as Said<SupportedKind>;
  return typeof x402Version === "number" && typeof scheme === "string" && typeof network === "string";
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function noAnswer({ status }: { status: number }, said: unknown): NoAnswer {
  const word = textOf(said);
  return {
    kind: "none",
    reason: `status ${status}, ${word === undefined ? "not an answer" : reasonOf(word)}`,
  };
}

function reasonOf(said: unknown): string {
  return textOf(said)?.slice(0, REASON_CHARS_MAX) ?? "no reason said";
}

function textOf(said: unknown): string | undefined {
  return typeof said === "string" && said !== "" ? said : undefined;
}
