import { bytesOf } from "../../../shared/console/contract/operation.ts";
import type { FailedCallDetail } from "../../../shared/console/failed.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { bodyText, writeBody } from "../body.ts";
import { callIdOf } from "../call-ids.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, plain, section, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ShowOptions = OperationTarget & { json?: boolean; full?: boolean; bodyOnly?: boolean };

/** `postern failed show`: prints all data of one failed call. Exit code 1 if the call is not among the failed ones. */
export function showFailed(deps: ProgramDeps, named: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    const readBody = async () => bytesOf(await operations.getFailedBody({ call_id: id }));
    if (options.bodyOnly) {
      writeBody(deps, id, await readBody());
      return EXIT.ok;
    }
    const call = await operations.getFailed({ call_id: id });
    // If there is no metadata, the stored data cannot be parsed as a call, and no body can be read from it.
    const body = call.metadata !== undefined ? await readBody() : undefined;
    if (options.json)
      deps.print(jsonLine({ ...call, ...(body && { body_base64: body.toString("base64") }) }));
    else deps.print(inWords(call, body, options.full ?? false));
    return EXIT.ok;
  });
}

function inWords(call: FailedCallDetail, body: Buffer | undefined, full: boolean): string {
  const known = facts([
    ["call", call.id],
    ["failed at", withAge(call.failed_at)],
    ["code", call.code],
    ["reason", call.reason],
    ["origin", call.origin],
    ["job", `${call.service_id}/${call.job_id}`],
    ["accepted at", call.accepted_at === undefined ? undefined : withAge(call.accepted_at)],
    ["traceparent", call.traceparent],
    ["attempts", `${call.attempts} (since it was last queued)`],
  ]);
  const attempts = section("failed attempts", call.failed_attempts.map(attemptRow).join(""));
  if (body === undefined) {
    const unread = bodyText(Buffer.from(JSON.stringify(call.stored) ?? ""), { full });
    return known + attempts + section("stored data (unreadable as a call)", unread);
  }
  const metadata = section("metadata", facts(Object.entries(call.metadata ?? {}), "  "));
  return known + attempts + metadata + section(bodyHeading(call, body), bodyText(body, { full }));
}

function attemptRow({ n, at, code, reason, worker }: FailedCallDetail["failed_attempts"][number]): string {
  return `  attempt ${n}  ${at}  ${plain(`${code}: ${reason}`)}  (producer ${plain(worker)})\n`;
}

function bodyHeading({ bytes, content_type, sha256 }: FailedCallDetail, body: Buffer): string {
  const changed = sha256Hex(body) === sha256 ? "" : ", which does not match these bytes";
  const type = content_type === undefined ? "no content type" : plain(content_type);
  return `body (${counted(bytes ?? body.length, "byte")}, ${type}, sha256 ${sha256}${changed})`;
}
