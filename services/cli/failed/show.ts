import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { JobCall } from "../../../shared/job-call/job-call.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createCallRecords, type FailedAttempt } from "../../../shared/queue/call-record.ts";
import { createFailedCalls, type FailedCall, type StoredCall } from "../../../shared/queue/failed.ts";
import type { RecordState } from "../../../shared/queue/protocol.ts";
import { jobIdsOf } from "../../../shared/queue/queue-name.ts";
import { openRegistry } from "../../../shared/queue/registry.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { bodyText, writeBody } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain, section, toIso } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { toJson } from "./list.ts";

export type ShowOptions = { configDir: string; json?: boolean; full?: boolean; bodyOnly?: boolean };

type Shown = { failed: FailedCall & StoredCall; record: string | undefined; attempts: FailedAttempt[] };

/** `postern failed show`: all that is known of one failed call. 1 if the call is not among the failed ones. */
export function showFailed(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition }) => {
    const calls = createFailedCalls(partition);
    const found = await calls.find(id);
    const stored = found && (await calls.stored(found));
    if (found === undefined || stored === undefined) throw await whereIs(partition, id);
    const failed = { ...found, ...stored };
    if (options.bodyOnly) {
      writeBody(deps, id, bodyOf(storedCall(failed)));
      return EXIT.ok;
    }
    const records = createCallRecords(partition);
    const [record, attempts] = await Promise.all([records.state(id), records.attempts(id)]);
    const shown = { failed, record, attempts };
    deps.print(options.json ? jsonLine(allOf(shown)) : inWords(shown, options.full ?? false));
    return EXIT.ok;
  });
}

/** Says in a sentence where a call is that is not among the failed ones. */
export async function whereIs(partition: Partition, id: string): Promise<Error> {
  const place = (await openRegistry(partition).find(id))?.state;
  if (place !== undefined)
    return new Error(`${id} is not among the failed calls: it is ${place} in the queue`);
  const records = createCallRecords(partition);
  const [record, forgottenAt] = await Promise.all([records.state(id), records.forgottenAt(id)]);
  if (forgottenAt !== undefined) {
    const reason = `${id} was forgotten at ${toIso(forgottenAt)}: there is nothing of it to be shown or run again`;
    return new AppError("call.forgotten", { reason });
  }
  return new Error(`${id} is not among the failed calls${recorded(record)}`);
}

function recorded(record: RecordState | undefined): string {
  if (record === undefined) return ", and nothing is known of it (any more)";
  if (record === "REFUND_PENDING" || record === "REFUNDED")
    return `: ${REFUNDS[record]}, so it neither runs again nor is discarded`;
  return `: its record says ${record.toLowerCase()}`;
}

const REFUNDS = {
  REFUND_PENDING: "the refund of its payment is exported",
  REFUNDED: "its payment was paid back",
} as const;

function storedCall({ id, call }: FailedCall & StoredCall): JobCall {
  if (call !== undefined) return call;
  throw new Error(`${id}: what is stored is no call of this version; --json shows it`);
}

function bodyOf(call: JobCall): Buffer {
  return Buffer.from(call.body, "base64");
}

function allOf({ failed, record, attempts }: Shown) {
  const { call, stored } = failed;
  return {
    ...toJson(failed),
    record,
    metadata: call?.metadata,
    failed_attempts: attempts.map((attempt) => ({ ...attempt, at: toIso(attempt.at) })),
    ...(call === undefined ? { stored } : { body_base64: call.body }),
  };
}

function inWords({ failed, record, attempts }: Shown, full: boolean): string {
  const { id, origin, call, code, reason, stored } = failed;
  const { serviceId, jobIndex } = jobIdsOf(failed.queue);
  const known = facts([
    ["call", id],
    ["failed at", toIso(failed.failedAt)],
    ["code", code],
    ["reason", reason],
    ["record", record ?? "none (the call came without a delivery id)"],
    ["origin", origin],
    ["service", serviceId.toString()],
    ["job", jobIndex.toString()],
    ["accepted at", toIso(failed.acceptedAt)],
    ["traceparent", failed.head.traceparent],
    ["attempts", `${failed.attempts} since it was queued or last replayed`],
  ]);
  const history = section("failed attempts", attempts.map(attemptRow).join(""));
  if (call === undefined) {
    const unread = bodyText(Buffer.from(JSON.stringify(stored) ?? ""), { full });
    return known + history + section("stored (no call of this version)", unread);
  }
  const metadata = section("metadata", facts(Object.entries(call.metadata), "  "));
  return known + history + metadata + section(bodyHeading(call), bodyText(bodyOf(call), { full }));
}

function attemptRow({ n, at, code, reason, worker }: FailedAttempt): string {
  return `  attempt ${n}  ${toIso(at)}  ${plain(`${code}: ${reason}`)}  (worker ${plain(worker)})\n`;
}

function bodyHeading(call: JobCall): string {
  const changed = sha256Hex(bodyOf(call)) === call.sha256 ? "" : ", which these bytes do not have";
  const type = call.content_type === undefined ? "no content type" : plain(call.content_type);
  return `body (${call.bytes} bytes, ${type}, sha256 ${call.sha256}${changed})`;
}
