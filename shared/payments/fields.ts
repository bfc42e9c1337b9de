import { JobCall } from "../job-call/job-call.ts";
import type {
  Decision,
  FacilitatorRequest,
  NewPayment,
  Payment,
  PaymentState,
  PaymentTerms,
  Settlement,
} from "./payment.ts";

/** A new payment as the fields of its hash, names and values by turns. */
export function fieldsOf(payment: NewPayment, now: number): (string | number)[] {
  const { call, terms, request, facilitator, sinceBlock, identifier, callerNonce } = payment;
  const fields = [
    ["call", JSON.stringify(call)],
    ["terms", JSON.stringify(terms)],
    ["request", JSON.stringify(request)],
    ["facilitator", facilitator],
    ["since_block", String(sinceBlock)],
    ["dispatches", 1],
    ["dispatched_at", now],
    ["claimed_at", now],
    ...(identifier === undefined ? [] : [["identifier", identifier]]),
    ...(callerNonce === undefined ? [] : [["caller_nonce", callerNonce.hash]]),
  ];
  return fields.flat() as (string | number)[];
}

/** The payment of these two hashes, each a list of names and values by turns; undefined where there is none. */
export function toPayment(
  id: string,
  [recordFields, paymentFields]: [string[], string[]],
): Payment | undefined {
  const record = toObject(recordFields);
  const payment = toObject(paymentFields);
  if (record["st"] === undefined || payment["terms"] === undefined) return undefined;
  const settlement = parsed<Settlement>(payment["settlement"]);
  return {
    id,
    state: record["st"] as PaymentState,
    terms: JSON.parse(payment["terms"]) as PaymentTerms,
    call: payment["call"] === undefined ? undefined : JobCall.parse(JSON.parse(payment["call"])),
    request: parsed<FacilitatorRequest>(payment["request"]),
    facilitator: payment["facilitator"] ?? "",
    sinceBlock: BigInt(payment["since_block"] ?? 0),
    dispatches: Number(payment["dispatches"]),
    dispatchedAt: Number(payment["dispatched_at"]),
    claimedAt: Number(payment["claimed_at"]),
    changedAt: Number(record["at"]),
    settlement,
    proven: payment["proven"] === "1",
    reason: payment["reason"],
    decided: settlement?.decided ?? parsed<Decision>(payment["decided"]),
    identifier: payment["identifier"],
    callerNonce: payment["caller_nonce"],
    bodySha256: record["bh"] ?? "",
    route: record["rt"] ?? "",
  };
}

function parsed<Value>(text: string | undefined): Value | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Value);
}

function toObject(fields: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) object[fields[i] as string] = fields[i + 1] as string;
  return object;
}
