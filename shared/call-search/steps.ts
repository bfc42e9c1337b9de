import { callbackId, ENDINGS, type Ending } from "../call/callback.ts";
import type { StoredResult } from "../call/results/result.ts";
import type { ResultRead } from "../call/results/store.ts";
import { isContradicted } from "../payments/list.ts";
import type { Payment } from "../payments/payment.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { type CallLog, type LogEntry, toCallLog } from "../queue/call-log.ts";
import { toCode, toFailure } from "../queue/failed.ts";
import type { EndedCall } from "./history/block.ts";

/**
 * A step in the life of a call. `at` is unix ms. `missing` is the number of attempts just before this step that are no longer
 * kept.
 */
export type LifeStep = {
  at: number;
  missing?: number;
} /** A gateway has created the call. The call of a paid request is created when its payment is claimed. */ & (
  | { kind: "created" }
  /** A facilitator has verified the payment, and the whole call is on disk. */
  | { kind: "claimed"; facilitator: string }
  /** The settle request was sent again; `dispatches` counts all its sends. */
  | { kind: "settle sent again"; dispatches: number }
  /**
   * The payment counts as made. `proven` says whether the chain has confirmed it. If the chain contradicts it, `reason` says
   * how.
   */
  | { kind: "settled"; transaction: string; by: string; proven: boolean; reason?: string | undefined }
  | { kind: "void"; reason: string | undefined }
  | { kind: "in review"; reason: string | undefined }
  | { kind: "queued" }
  | {
      kind: "attempt failed";
      n: number;
      code: string;
      reason: string;
      worker: string;
      ms?: number | undefined;
      status?: number | undefined;
    }
  /** The outcome of the attempt is unknown, because its producer exited, stalled or lost the lease. */
  | { kind: "attempt lost"; n: number }
  | { kind: "failed"; code: ErrorCode; reason: string }
  | { kind: "replayed" | "run early"; by: string; reason: string | undefined }
  /** The `n`-th attempt succeeded. `n` is undefined if that number is no longer known. */
  | { kind: "injected"; n: number | undefined; ms?: number | undefined }
  | { kind: "discarded"; by?: string; reason?: string | undefined }
  | { kind: "refund exported"; export: string }
  | { kind: "refunded"; transaction: string }
  /** The runner accepted the call although its refund had been exported. */
  | { kind: "injected late" }
  /** The newest progress of the runner of a long job, as JSON. */
  | { kind: "progress"; json: string }
  | { kind: "result"; status: number; contentType: string | undefined; bytes: number; by: StoredResult["by"] }
  | { kind: "result too long"; status: number; by: StoredResult["by"] }
  | { kind: "failure delivered"; status: number; title: string | undefined; detail: string | undefined }
  /**
   * A callback about this call. It is itself a call, with its own id and state. `at` is when it was queued or, once it has left
   * its queue, when it came into its last state.
   */
  | { kind: "callback"; ending: Ending; id: string; state: string; attempts: number }
  | { kind: "forgotten" }
);

type Answer = Extract<ResultRead, { kind: "answer" }>;

/** State of a result. An answer has its size instead of its body. */
export type LifeResult = Exclude<ResultRead, Answer> | (Omit<Answer, "body"> & { bytes: number });

/** The data of a call that its steps are derived from. */
export type Known = {
  id: string;
  record: Readonly<Record<string, string>>;
  head: { accepted_at: number } | undefined;
  payment: Payment | undefined;
  log: CallLog;
  /** Number of all attempts. */
  attempts: number | undefined;
  result: LifeResult;
  remembered: EndedCall | undefined;
  /**
   * Data of each callback that the call may have. `state` and `changedAt` are from the callback's record. `place` is its place
   * in a queue, to which it was added at `queuedAt`. `newest` is the newest entry of its log of attempts.
   */
  callbacks: readonly (readonly [state: Text, changedAt: Num, place: Text, queuedAt: Num, newest: Text])[];
};

type Num = number | undefined;
type Text = string | undefined;

/** Returns the steps of a call, oldest first. */
export function stepsOf(known: Known): LifeStep[] {
  return inOrder([...ownSteps(known), ...callbackSteps(known)]);
}

/**
 * Maximum difference between the times of two steps that happened at once. Each process only estimates Redis' clock. So a step
 * may have an earlier time than the step that caused it.
 */
const CLOCKS_DIFFER_MS = 100;

/** Sorts the steps by time. Steps whose times differ by at most `CLOCKS_DIFFER_MS` keep their given order. */
function inOrder(given: readonly LifeStep[]): LifeStep[] {
  const steps: LifeStep[] = [];
  for (const step of given) {
    const before = steps.findLastIndex(({ at }) => at <= step.at + CLOCKS_DIFFER_MS);
    steps.splice(before + 1, 0, step);
  }
  return steps;
}

function byTime(steps: readonly LifeStep[]): LifeStep[] {
  return steps.toSorted((a, b) => a.at - b.at);
}

/** Returns the call's own steps. Steps at about the same time stay in this order. */
function ownSteps(known: Known): LifeStep[] {
  const { record, head, remembered, log, payment } = known;
  const acceptedAt = head?.accepted_at ?? remembered?.acceptedAt ?? payment?.claimedAt;
  const late = numberOf(record["late"]);
  const forgottenAt = numberOf(record["fg"]);
  return [
    ...(acceptedAt === undefined ? [] : [{ kind: "created", at: acceptedAt } as const]),
    ...paymentSteps(known),
    ...logSteps(log),
    ...byTime([
      ...resultSteps(known),
      ...endSteps(known),
      ...(late === undefined ? [] : [{ kind: "injected late", at: late } as const]),
    ]),
    ...(forgottenAt === undefined ? [] : [{ kind: "forgotten", at: forgottenAt } as const]),
  ];
}

function logSteps({ entries }: CallLog): LifeStep[] {
  let shown = 0;
  return entries.flatMap((entry) => {
    const isAttempt = entry.kind === "attempt" || entry.kind === "lost";
    const missing = missingFrom(shown, isAttempt ? entry.n - 1 : entry.n);
    shown = entry.n;
    const [first, ...rest] = stepsOfEntry(entry);
    return [{ ...first, ...missing }, ...rest];
  });
}

function missingFrom(shown: number, before: number): { missing?: number } {
  return before > shown ? { missing: before - shown } : {};
}

function stepsOfEntry(entry: LogEntry): [LifeStep, ...LifeStep[]] {
  const { kind, n, at } = entry;
  switch (kind) {
    case "lost":
      return [{ kind: "attempt lost", at, n }];
    case "failed":
      return [{ kind, at, ...toFailure(entry.reason) }];
    case "attempt": {
      const { code, reason, worker, ms, status, failedAt } = entry;
      const failed = { kind: "failed", code: toCode(code), reason } as const;
      return [
        { kind: "attempt failed", at, n, code, reason, worker, ms, status },
        ...(failedAt === undefined ? [] : [{ ...failed, at: failedAt }]),
      ];
    }
    default:
      return [{ kind, at, by: entry.by, reason: entry.reason }];
  }
}

function paymentSteps({ payment, record }: Known): LifeStep[] {
  if (payment === undefined) return [];
  const { claimedAt, dispatches, dispatchedAt, facilitator, settlement, settledAt, proven, reason } = payment;
  const at = Number(record["at"]);
  const steps: LifeStep[] = [{ kind: "claimed", at: claimedAt, facilitator }];
  if (dispatches > 1) steps.push({ kind: "settle sent again", at: dispatchedAt, dispatches });
  if (settlement !== undefined && settledAt !== undefined) {
    const { transaction, by } = settlement;
    const contradicted = isContradicted(payment) ? { reason } : {};
    steps.push({ kind: "settled", at: settledAt, transaction, by, proven, ...contradicted });
    // One script settles the payment and adds the call to its queue, so both steps have the same time.
    if (payment.dropped === undefined) steps.push({ kind: "queued", at: settledAt });
  }
  if (payment.state === "VOID") steps.push({ kind: "void", at, reason });
  if (payment.state === "REVIEW") steps.push({ kind: "in review", at, reason });
  return steps;
}

/** Returns the steps of the call's end and of its refund. */
function endSteps({ record, log, attempts, payment, remembered }: Known): LifeStep[] {
  const at = Number(record["at"]);
  const steps: LifeStep[] = [];
  const injected = {
    kind: "injected",
    n: attempts,
    ms: remembered?.ms,
    ...missingFrom(log.attempts, (attempts ?? 0) - 1),
  } as const;
  if (record["st"] === "INJECTED") steps.push({ ...injected, at });
  else if (record["st"] === undefined && remembered !== undefined)
    steps.push({ ...injected, at: remembered.endedAt });
  const isDiscardLogged = log.entries.some(({ kind }) => kind === "discarded");
  if (record["st"] === "DISCARDED" && !isDiscardLogged) steps.push({ kind: "discarded", at });
  if (payment?.refund !== undefined)
    steps.push({ kind: "refund exported", at: payment.refund.at, export: payment.refund.export });
  if (record["st"] === "REFUNDED")
    steps.push({ kind: "refunded", at, transaction: payment?.refunded?.transaction ?? "" });
  return steps;
}

function resultSteps({ result }: Known): LifeStep[] {
  switch (result.kind) {
    case "answer": {
      const { at, status, contentType, bytes, by } = result;
      return [{ kind: "result", at, status, contentType, bytes, by }];
    }
    case "too_long":
      return [{ kind: "result too long", at: result.at, status: result.status, by: result.by }];
    case "failure": {
      const { at, status, title, detail } = result;
      return [{ kind: "failure delivered", at, status, title, detail }];
    }
    case "pending":
      return result.progress === undefined
        ? []
        : [{ kind: "progress", at: result.progress.at, json: result.progress.json }];
    default:
      return [];
  }
}

function callbackSteps({ id, callbacks }: Known): LifeStep[] {
  return callbacks.flatMap(([st, changedAt, place, timestamp, newest], i): LifeStep[] => {
    const state = st ?? (place && (place === "failed" ? "failed" : "queued"));
    const ending = ENDINGS[i];
    if (state === undefined || ending === undefined) return [];
    const failed = toCallLog(newest === undefined ? [] : [newest]).attempts;
    const attempts = state === "INJECTED" ? failed + 1 : failed;
    const at = timestamp ?? changedAt ?? 0;
    const told = { ending, id: callbackId(id, ending), state: state.toLowerCase(), attempts };
    return [{ kind: "callback", at, ...told }];
  });
}

export function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
