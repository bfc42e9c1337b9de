import type { SettleResponse, SupportedKind, SupportedResponse, VerifyResponse } from "@x402/core/types";
import { createHttpClient, type HttpAnswer, isTimeout } from "../../../shared/http/client.ts";
import { clientSpan } from "../../../shared/http/client-span.ts";
import { parseRetryAfter } from "../../../shared/http/headers.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { cut } from "../../../shared/platform/text/cut.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { FacilitatorCall } from "./authorize.ts";
import type { Credentials } from "./credentials.ts";

/** A longer answer is not read to its end. */
const ANSWER_BYTES_MAX = 64 * 1024;
/** A facilitator of many networks and schemes lists a kind for each pair. */
const SUPPORTED_BYTES_MAX = 1024 * 1024;

/** A JSON object, or the reason why there is none. */
type RawAnswer = { kind: "json"; status: number; value: Readonly<Record<string, unknown>> } | NoAnswer;

/** No judgement on the payment: another facilitator, or the same one later, may have one. */
export type NoAnswer = {
  kind: "none";
  reason: string;
  retryAfterMs?: number;
  /** It says that this one request is at fault, so it tells nothing of the facilitator. */
  isOfRequest?: boolean;
  /** Nothing was sent. */
  isUnsent?: boolean;
};

export type FacilitatorClient = {
  /** Makes one exchange and never repeats it. The deadline covers it from its credentials to the last byte. Never rejects. */
  ask(
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

/** Talks to one facilitator (x402, facilitator interface). */
export function createFacilitatorClient({ url, credentials, clock }: Options): FacilitatorClient {
  const base = new URL(url);
  const basePath = base.pathname.replace(/\/$/, "");
  const { fixed, ofRequest } = credentials;
  const headers = { ...fixed, accept: "application/json", "content-type": "application/json" };
  const client = createHttpClient({ base, headers, answerBytesMax: ANSWER_BYTES_MAX });

  function toRawAnswer({ status, headers, text }: HttpAnswer, answerBytesMax: number): RawAnswer {
    if (text === undefined)
      return { kind: "none", reason: `its answer is longer than ${answerBytesMax} bytes` };
    const retryAfterMs = parseRetryAfter(only(headers["retry-after"]), clock());
    const failed = { kind: "none" as const, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    if (isRedirect(status))
      return { ...failed, reason: `status ${status}${targetOf(only(headers["location"]), base)}` };
    if (isNoAnswer(status)) return { ...failed, reason: `status ${status}` };
    const value = objectIn(text);
    if (value) return { kind: "json", status, value };
    const isOfRequest = REQUEST_FAULTS.includes(status);
    return { ...failed, reason: `status ${status}, and the body is not a JSON object`, isOfRequest };
  }

  return {
    async ask(operation, body, timeoutMs) {
      const signal = AbortSignal.timeout(timeoutMs);
      const path = `${basePath}/${operation}`;
      const method = body === undefined ? "GET" : "POST";
      const answerBytesMax = operation === "supported" ? SUPPORTED_BYTES_MAX : ANSWER_BYTES_MAX;
      let isUnsent = true;
      try {
        const call = { facilitator: url, operation, method, host: base.host, path, body } as const;
        const own = ofRequest && (await unlessLate(ofRequest(call), signal));
        isUnsent = false;
        const answer = await client.exchange({
          path,
          body,
          ...(own && { headers: own }),
          signal,
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

/** What this resolves with, unless the deadline passes before. */
function unlessLate<Result>(work: Promise<Result>, deadline: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const late = new Error("its credentials were not ready in time, so nothing was sent");
    const onLate = () => reject(late);
    deadline.addEventListener("abort", onLate);
    work.finally(() => deadline.removeEventListener("abort", onLate)).then(resolve, reject);
  });
}

function only(value: string | string[] | undefined): string | undefined {
  return [value].flat()[0];
}

const TARGET_CHARS_MAX = 200;

/** Where a redirect leads, for the log. The path is told only where the facilitator's own has no part that may be a key. */
function targetOf(location: string | undefined, base: URL): string {
  if (location === undefined || !URL.canParse(location, base.href)) return "";
  const { protocol, host, pathname } = new URL(location, base);
  const path = base.pathname === "/" ? pathname : "/…";
  return ` to ${protocol}//${host}${path}`.slice(0, TARGET_CHARS_MAX);
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** A "later" and a failure of the server leave the question open, whatever their bodies say. */
function isNoAnswer(status: number): boolean {
  return [408, 425, 429].includes(status) || status >= 500;
}

/** Statuses that a payer can bring about with what he writes into his payment. */
const REQUEST_FAULTS: readonly number[] = [400, 413, 415, 422, 431];

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

export type VerifyAnswer =
  | { kind: "valid" }
  /** `fault` says who can mend it; the reason is the facilitator's own word. */
  | { kind: "refused"; reason: string; fault: "payer" | "operator" };

export type SettleAnswer =
  | { kind: "settled"; transaction: string }
  /** The facilitator says that it did not settle. This proves nothing: the transaction may have been sent. */
  | { kind: "refused"; reason: string; transaction?: string }
  | { kind: "unknown"; reason: string; transaction?: string };

const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;
const REASON_CHARS_MAX = 200;

/** The SDK's type of an answer, with nothing certain: any field may be absent or of another type. */
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
  const { success, transaction: named, errorReason }: Unchecked<SettleResponse> = answer.value;
  const transaction = typeof named === "string" && TRANSACTION.test(named) ? named : undefined;
  if (success === true && isSuccess(answer.status)) {
    return transaction === undefined
      ? { kind: "unknown", reason: "success without a transaction" }
      : { kind: "settled", transaction };
  }
  const sent = transaction !== undefined && { transaction };
  const reason = reasonOf(errorReason);
  if (success !== false) return { kind: "unknown", reason: noAnswer(answer.status, reason).reason, ...sent };
  return { kind: isListed(OPEN_SETTLEMENTS, reason) ? "unknown" : "refused", reason, ...sent };
}

/** The kinds of payment that a facilitator settles, without those that cannot be read. */
export function readSupported(answer: RawAnswer): readonly SupportedKind[] | NoAnswer {
  if (answer.kind === "none") return answer;
  const { kinds }: Unchecked<SupportedResponse> = answer.value;
  if (!isSuccess(answer.status) || !Array.isArray(kinds)) return noAnswer(answer.status, undefined);
  return kinds.filter(isKind);
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
 * `invalidReason` and `errorReason` are open sets: @x402/evm 2.27 differs from the protocol's own list, and vendors add
 * their own. So each table lists what is known to be one thing, and anything else is the other. Families that differ only
 * in their prefix (`invalid_exact_evm_...`) are listed by their ending.
 */

/** Nothing that a payer signs changes these: the token, the network or the facilitator is configured wrongly. */
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

/** The facilitator could not find out: another one may. */
const VERIFY_FAILURES: readonly string[] = ["unexpected_verify_error"];

/**
 * The settlement may well have happened: it is pending, it was sent and not confirmed, or an earlier request made it and
 * its answer was lost.
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

/** Some reasons have a node's own words behind a colon. */
function isListed(endings: readonly string[], reason: string): boolean {
  const [code = ""] = reason.split(":");
  return endings.some((ending) => code === ending || code.endsWith(`_${ending}`));
}
