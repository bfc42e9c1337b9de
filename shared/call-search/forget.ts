import { RECORD } from "../call/record-state.ts";
import { AppError, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { AUDIT, actKeys, createAudit, logAudited, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import { oneOf, optional, text, tuple } from "../redis/reply.ts";
import { callKeys } from "./call-keys.ts";
import forgetLua from "./forget.lua";
import { createForgetInHistory } from "./history/keep.ts";
import { createFindEnded } from "./history/read.ts";

/**
 * Minimum retention time of the record of a forgotten call that was not paid for. A runner may deliver a late result within
 * this time, and must then find the record. The record of a paid call is kept as long as its payment.
 */
const FORGOTTEN_KEEP_MS = 7 * 86_400_000;

const FORGET = defineScript({
  source: forgetLua,
  keys: "record, payment, discarded, attempts, result, progress, kept, registry, bytes, acts, repeats, actCount, ...callbacks(record, attempts)",
  args: "prefix, id, now, keepMs, callbackIds, line",
  constants: { AUDIT, RECORD },
  proof: "needed",
  reply: tuple(oneOf("DONE", "FORGOTTEN", "UNDECIDED", "IN_HAND", "UNKNOWN"), optional(text)),
});

/** `before`: nothing was done, because the call had been forgotten earlier, at the time `at` (unix ms). */
export type Forgotten = { kind: "done" } | { kind: "before"; at: number };

export type Forget = (id: string, reason: string) => Promise<Forgotten>;

/**
 * Deletes all data that Postern has from a call's sender: body, metadata, result, progress, the reasons of its attempts, and
 * its callback. The remaining record says that the call existed, so that a repeat of the delivery or payment runs and charges
 * nothing. A failed call ends as discarded.
 *
 * One script does this and writes the line of the audit log, so nothing can run in between. A second step removes the call
 * from the history of injected calls. Later the runner may still answer or deliver a result, or an attempt may fail. None of
 * these writes data. The scripts that would write it find an ended call, or the field `fg` of the record (the time at which
 * the call was forgotten).
 *
 * Throws `call.in_hand`, `call.undecided` and `call.unknown`.
 */
export function createForget({ partition, clock, log, by }: OperateDeps): Forget {
  const { redis, keys, prefix } = partition;
  const run = FORGET.on(redis);
  const history = createForgetInHistory(partition);
  const findEnded = createFindEnded(partition);
  const audit = createAudit(partition, log);

  return async function forget(id, reason) {
    const at = clock();
    const entry = { at, action: "forget", callId: id, by, selection: "by id", reason } as const;
    const { touched, callbackIds } = callKeys(keys, id);
    const own = {
      ...touched,
      bytes: keys.bytes,
      discarded: keys.paymentsDiscarded,
      ...actKeys(keys, entry),
    };
    const words = {
      prefix,
      id,
      now: at,
      keepMs: FORGOTTEN_KEEP_MS,
      callbackIds: JSON.stringify(callbackIds),
    };
    failpoint("operator.before_forgotten");
    const [outcome, detail = ""] = await run(own, { ...words, line: toLine(entry) });
    failpoint("operator.after_forgotten");
    switch (outcome) {
      case "DONE":
        await history.forget(id);
        logAudited(log, entry);
        return { kind: "done" };
      case "FORGOTTEN":
        await history.forget(id); // the process that forgot the call may have died before this step
        return { kind: "before", at: Number(detail) };
      case "UNDECIDED":
        throw undecided(id, detail);
      case "IN_HAND":
        throw inFlight(id, detail);
      case "UNKNOWN":
        if ((await findEnded(id)) !== undefined) {
          await audit(entry);
          await history.remove(id);
          return { kind: "done" };
        }
        throw AppError.public(
          "call.unknown",
          `${id} is unknown: there was no such call, or it is no longer kept`,
        );
    }
  };
}

function undecided(id: string, state: string): AppError {
  const detail =
    state === "REVIEW"
      ? `${id}: the payment is in review: decide it with postern payments resolve`
      : `${id}: the outcome of the payment is not known yet; postern payments resolve --dropped deletes the body now`;
  return AppError.public("call.undecided", detail, { retryAfterMs: RETRY_AFTER_MS });
}

function inFlight(id: string, place: string): AppError {
  const detail =
    place === "missing"
      ? `${id}: the queue lost this call before it ran; a gateway will queue it again`
      : `${id}: the call is ${place} in its queue; it can be forgotten once it has ended or failed`;
  return AppError.public("call.in_hand", detail, { retryAfterMs: RETRY_AFTER_MS });
}
