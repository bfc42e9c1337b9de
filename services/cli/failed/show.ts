import { sha256Hex } from "../../../shared/crypto/compare.ts";
import type { JobCall } from "../../../shared/job-call/job-call.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createCallRecords, type FailedAttempt } from "../../../shared/queue/call-record.ts";
import { createFailedCalls, type FailedCall } from "../../../shared/queue/failed.ts";
import { toIso } from "../moment.ts";
import { plain } from "../plain.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type Session, withRedis } from "../with-redis.ts";
import { bodyText } from "./body-text.ts";
import { toJson } from "./list.ts";
import { whereIs } from "./where-is.ts";

export type ShowOptions = { configDir: string; json?: boolean; full?: boolean; bodyOnly?: boolean };

type Shown = { failed: FailedCall; record: string | undefined; attempts: FailedAttempt[] };

/** `postern failed show`: all that is known of one failed call. */
export function showFailed(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async ({ redis }) => {
    const shown = await look(redis, id);
    if (shown === undefined) {
      deps.printError(`${await whereIs(redis, id)}\n`);
      return EXIT.failed;
    }
    if (options.bodyOnly) return printBody(deps, shown.failed);
    deps.print(options.json ? `${JSON.stringify(allOf(shown))}\n` : inWords(shown, options.full ?? false));
    return EXIT.ok;
  });
}

async function look(redis: Session["redis"], id: string): Promise<Shown | undefined> {
  const failed = await createFailedCalls(redis).find(id);
  if (failed === undefined) return undefined;
  const records = createCallRecords(redis);
  const [record, attempts] = await Promise.all([records.state(id), records.attempts(id)]);
  return { failed, record, attempts };
}

function printBody({ terminal, printError }: ProgramDeps, { id, call }: FailedCall): number {
  if (call === undefined) {
    printError(`${id}: what is stored is no call of this version; --json shows it\n`);
    return EXIT.failed;
  }
  terminal.writeBytes(bodyOf(call));
  return EXIT.ok;
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
  const { id, origin, call, code, reason } = failed;
  const facts: [string, string | undefined][] = [
    ["call", id],
    ["failed", toIso(failed.failedAt)],
    ["code", code],
    ["reason", reason],
    ["record", record ?? "none (the call came without evidence of its identity)"],
    ["origin", origin],
    ["job", call?.job_id.toString()],
    ["accepted", toIso(failed.acceptedAt)],
    ["traceparent", call?.traceparent],
    ["attempts", `${failed.attempts} since it was queued or last replayed`],
  ];
  const known = facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return [
    rows(known, ""),
    section("failed attempts", attempts.map(attemptRow).join("")),
    call === undefined ? section("stored (no call of this version)", unread(failed.stored, full)) : "",
    call === undefined ? "" : section("metadata", rows(Object.entries(call.metadata), "  ")),
    call === undefined ? "" : section(bodyHeading(call), bodyText(bodyOf(call), { full })),
  ].join("");
}

function attemptRow({ at, code, reason, worker }: FailedAttempt): string {
  return `  ${toIso(at)}  ${plain(`${code}: ${reason}`)}  (worker ${plain(worker)})\n`;
}

function unread(stored: unknown, full: boolean): string {
  return bodyText(Buffer.from(JSON.stringify(stored) ?? ""), { full });
}

function bodyHeading(call: JobCall): string {
  const changed = sha256Hex(bodyOf(call)) === call.sha256 ? "" : ", which these bytes do not have";
  const type = call.content_type === undefined ? "no content type" : plain(call.content_type);
  return `body (${call.bytes} bytes, ${type}, sha256 ${call.sha256}${changed})`;
}

function section(heading: string, content: string): string {
  return content === "" ? "" : `\n${heading}\n${content}`;
}

function rows(entries: readonly (readonly [string, string])[], indent: string): string {
  const width = Math.max(...entries.map(([name]) => name.length), 0);
  return entries.map(([name, value]) => `${indent}${name.padEnd(width)}  ${plain(value)}\n`).join("");
}
