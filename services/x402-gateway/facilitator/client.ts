import type { SettleResponse, SupportedKind, SupportedResponse, VerifyResponse } from "@x402/core/types";
import { createHttpClient, type HttpAnswer, isTimeout } from "../../../shared/http/client.ts";
import { clientSpan } from "../../../shared/http/client-span.ts";
import { parseRetryAfter } from "../../../shared/http/headers.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { cut } from "../../../shared/platform/text/cut.ts";
import { type Clock, within } from "../../../shared/platform/time/clock.ts";
import type { FacilitatorCall } from "./authorize.ts";
import type { Credentials } from "./credentials.ts";
import type { Supported } from "./kinds.ts";

/** Limit on the size of an answer. A longer answer is not read to its end, and counts as no answer. */
const ANSWER_BYTES_MAX = 64 * 1024;
/**
 * Limit on the size of the answer that lists the supported kinds. It is larger, because a facilitator lists a kind for each pair
 * of network and scheme.
 */
const SUPPORTED_BYTES_MAX = 1024 * 1024;

/** Answer of a facilitator before its meaning is read: a JSON object, or the reason why it is missing. */
type RawAnswer = { kind: "json"; status: number; value: Readonly<Record<string, unknown>> } | NoAnswer;

/**
 * There is no usable answer: the facilitator has not judged the payment. Another facilitator may judge it, or the same one later.
 */
export type NoAnswer = {
  kind: "none";
  reason: string;
  retryAfterMs?: number;
  /**
   * Whether the facilitator answered that this request is faulty (`REQUEST_FAULTS`). The payer may have caused that, so it does
   * not show a fault of the facilitator.
   */
  isOfRequest?: boolean;
  /** True if the request was not sent. */
  isUnsent?: boolean;
};

export type FacilitatorClient = {
  /**
   * Sends one request and never repeats it. `timeoutMs` limits the whole exchange: making the credentials, sending the request,
   * and reading the answer to its end. Never rejects: after a failure it resolves with the reason (`NoAnswer`).
   */
  exchange(
    operation: FacilitatorCall["operation"],
    body: string | undefined,
    timeoutMs: number,
  ): Promise<RawAnswer>;
  close(): Promise<void>;
};

type Options = {
  url: string;
  credentials: Credentials;
  clock: Clock;
};

/** Creates a client of one facilitator (x402, facilitator interface). */
export function createFacilitatorClient({ url, credentials, clock }: Options): FacilitatorClient {
  const base = new URL(url);
  const basePath = base.pathname.replace(/\/$/, "");
  const { fixed, headersFor } = credentials;
  const headers = { ...fixed, accept: "application/json", "content-type": "application/json" };
  const client = createHttpClient({ base, headers, answerBytesMax: ANSWER_BYTES_MAX });

  function toRawAnswer({ status, headers, text }: HttpAnswer, answerBytesMax: number): RawAnswer {
    if (text === undefined)
      return { kind: "none", reason: `its answer is longer than ${answerBytesMax} bytes` };
    const retryAfterMs = parseRetryAfter(firstOf(headers["retry-after"]), clock());
    const failed = { kind: "none" as const, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    if (isRedirect(status))
      return { ...failed, reason: `status ${status}${targetOf(firstOf(headers["location"]), base)}` };
    if (isNoAnswer(status)) return { ...failed, reason: `status ${status}` };
    const value = objectIn(text);
    if (value) return { kind: "json", status, value };
    const isOfRequest = REQUEST_FAULTS.includes(status);
    return { ...failed, reason: `status ${status}, and the body is not a JSON object`, isOfRequest };
  }

  return {
    async exchange(operation, body, timeoutMs) {
      const until = performance.now() + timeoutMs;
      const path = `${basePath}/${operation}`;
      const method = body === undefined ? "GET" : "POST";
      const answerBytesMax = operation === "supported" ? SUPPORTED_BYTES_MAX : ANSWER_BYTES_MAX;
      let isUnsent = true;
      try {
        const call = { facilitator: url, operation, method, host: base.host, path, body } as const;
        const own = headersFor && (await unlessLate(headersFor(call), timeoutMs));
        isUnsent = false;
        const answer = await client.exchange({
          path,
          body,
          ...(own && { headers: own }),
          timeoutMs: until - performance.now(),
          answerBytesMax,
          span: clientSpan(method, base, `/${operation}`),
        });
        return toRawAnswer(answer, answerBytesMax);
      } catch (error) {
        const reason = isTimeout(error) ? `no answer within ${timeoutMs} ms` : messageOf(error);
        return { kind: "none", reason, isUnsent };
      }
    },
    close: client.close,
  };
}

/** Resolves like `work`. Throws if the deadline passes first. */
async function unlessLate<Result>(work: Promise<Result>, timeoutMs: number): Promise<Result> {
  const outcome = await within(timeoutMs, work);
  if (outcome.kind === "done") return outcome.result;
  if (outcome.kind === "failed") throw outcome.error;
  throw new Error("its credentials were not ready in time, so nothing was sent");
}

function firstOf(value: string | string[] | undefined): string | undefined {
  return [value].flat()[0];
}

const TARGET_CHARS_MAX = 200;

/**
 * Returns the target of a redirect, for the log. If the facilitator's configured URL has a path, that path may hold a key, and
 * the target may repeat it. So the target's path is left out then.
 */
function targetOf(location: string | undefined, base: URL): string {
  if (location === undefined || !URL.canParse(location, base.href)) return "";
  const { protocol, host, pathname } = new URL(location, base);
  const path = base.pathname === "/" ? pathname : "/…";
  return ` to ${protocol}//${host}${path}`.slice(0, TARGET_CHARS_MAX);
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/**
 * Whether an answer with this status is no judgement, regardless of its body. With such a status, the facilitator asks to retry
 * later, or says that it has failed.
 */
function isNoAnswer(status: number): boolean {
  return [408, 425, 429].includes(status) || status >= 500;
}

/** Statuses that a payer can cause by the content of the payment. They do not show that the facilitator has a fault. */
const REQUEST_FAULTS: readonly number[] = [400, 413, 415, 422, 431];

/** Returns the JSON object in an answer. A byte order mark before it is ignored, as RFC 8259 permits. */
function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.replace(/^\uFEFF/, ""));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

export type VerifyAnswer =
  | { kind: "valid" }
  /** `fault` says who can correct the cause of the refusal. `reason` is the facilitator's own text. */
  | { kind: "refused"; reason: string; fault: "payer" | "operator" };

export type SettleAnswer =
  | { kind: "settled"; transaction: string }
  /** The facilitator says that it did not settle the payment. This is no proof: it may still have sent the transaction. */
  | { kind: "refused"; reason: string; transaction?: string }
  | { kind: "unknown"; reason: string; transaction?: string };

const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;
const REASON_CHARS_MAX = 200;

/** A type of the x402 SDK for an answer that was not checked yet: any member may be missing or have another type. */
type Unchecked<Response> = { readonly [Key in keyof Response]?: unknown };

export function readVerified(answer: RawAnswer): VerifyAnswer | NoAnswer {
  if (answer.kind === "none") return answer;
  const { isValid, invalidReason }: Unchecked<VerifyResponse> = answer.value;
  if (isValid === true && isSuccess(answer.status)) return { kind: "valid" };
  const reason = reasonOf(invalidReason);
  if (isValid !== false || isListed(VERIFY_FAILURES, reason)) return noAnswer(answer.status, invalidReason);
  return { kind: "refused", reason, fault: isListed(OPERATOR_FAULTS, reason) ? "operator" : "payer" };
}

export function readSettled(answer: RawAnswer): SettleAnswer {
  if (answer.kind === "none") return { kind: "unknown", reason: answer.reason };
  const {
    success,
    transaction: named,
    errorReason,
    status,
  }: Unchecked<SettleResponse & Draft> = answer.value;
  const transaction = typeof named === "string" && TRANSACTION.test(named) ? named : undefined;
  const sent = transaction !== undefined && { transaction };
  const isUnsettled = OPEN_STATUSES.includes(status) || FAILED_STATUSES.includes(status);
  if (success === true && isSuccess(answer.status)) {
    if (isUnsettled) return { kind: "unknown", reason: `success with the status ${status}`, ...sent };
    return transaction === undefined
      ? { kind: "unknown", reason: "success without a transaction" }
      : { kind: "settled", transaction };
  }
  const reason = reasonOf(errorReason);
  if (success !== false) return { kind: "unknown", reason: noAnswer(answer.status, reason).reason, ...sent };
  const isOpen = isListed(OPEN_SETTLEMENTS, reason) || OPEN_STATUSES.includes(status);
  return { kind: isOpen ? "unknown" : "refused", reason, ...sent };
}

/** Reads the kinds and extensions that a facilitator supports. Skips entries that cannot be read. */
export function readSupported(answer: RawAnswer): Supported | NoAnswer {
  if (answer.kind === "none") return answer;
  const { kinds, extensions }: Unchecked<SupportedResponse> = answer.value;
  if (!isSuccess(answer.status) || !Array.isArray(kinds)) return noAnswer(answer.status, undefined);
  const names: unknown[] = Array.isArray(extensions) ? extensions : [];
  return { kinds: kinds.filter(isKind), extensions: names.filter((name) => typeof name === "string") };
}

function isKind(kind: unknown): kind is SupportedKind {
  const { x402Version, scheme, network } = (kind ?? {}) as Unchecked<SupportedKind>;
  return typeof x402Version === "number" && typeof scheme === "string" && typeof network === "string";
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function noAnswer(status: number, said: unknown): NoAnswer {
  const word = textOf(said);
  const reason = `status ${status}, ${word === undefined ? "not a valid answer" : reasonOf(word)}`;
  return { kind: "none", reason, isOfRequest: REQUEST_FAULTS.includes(status) };
}

function reasonOf(said: unknown): string {
  return cut(textOf(said) ?? "no reason given", REASON_CHARS_MAX);
}

function textOf(said: unknown): string | undefined {
  return typeof said === "string" && said !== "" ? said : undefined;
}

/*
 * A facilitator gives its reason in `invalidReason` (verify) or `errorReason` (settle). The values of both are not fixed: those
 * of @x402/evm 2.27 differ from the protocol's own list, and vendors add their own. So each table below lists the known reasons
 * with one meaning, and every other reason has the opposite meaning. Some reasons differ only in their prefix, such as
 * `invalid_exact_evm_...`. They are listed once, by their ending.
 */

/**
 * Reasons for refusing a payment that a payer cannot remove by signing again, because the operator has configured the token, the
 * network or the facilitator wrongly.
 */
const OPERATOR_FAULTS: readonly string[] = [
  "token_name_mismatch",
  "token_version_mismatch",
  "missing_eip712_domain",
  "asset_not_deployed_contract",
  "eip3009_not_supported",
  "invalid_payment_requirements",
  "unsupported_scheme",
  "unsupported_payload_type",
  "invalid_scheme",
  "invalid_exact_evm_scheme",
  "invalid_network",
  "network_mismatch",
  "invalid_x402_version",
  "recipient_mismatch",
  "permit2_proxy_not_deployed",
];

/** Reasons in a negative verify answer that say nothing about the payment. Another facilitator may be able to judge it. */
const VERIFY_FAILURES: readonly string[] = ["unexpected_verify_error"];

/**
 * Reasons in a negative settle answer after which the payment may still have been made. The transaction is pending, or it was
 * sent and not confirmed. Or an earlier settle request has made the payment, and its answer was lost.
 */
const OPEN_SETTLEMENTS: readonly string[] = [
  "settlement_pending",
  "duplicate_settlement",
  "nonce_already_used",
  "permit2_invalid_nonce",
  "transaction_failed",
  "transfer_event_mismatch",
  "invalid_transaction_state",
  "unexpected_settle_error",
];

/** Member of a settle answer that a draft of x402 adds (proposal 3208). Some facilitators may already send it. */
type Draft = { status: string };

/**
 * Values of `status` (in `Draft`) that say that the payment may still be made. A value in neither of these two lists is ignored.
 */
const OPEN_STATUSES: readonly unknown[] = ["pending", "blocked", "deferred_until"];
const FAILED_STATUSES: readonly unknown[] = ["expired", "canceled"];

/**
 * Whether a reason has one of these endings. Some facilitators append a colon and the error text of the chain's node, which is
 * ignored.
 */
function isListed(endings: readonly string[], reason: string): boolean {
  const [code = ""] = reason.split(":");
  return endings.some((ending) => code === ending || code.endsWith(`_${ending}`));
}
