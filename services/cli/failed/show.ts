import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createFailedApi, type FailedCallDetail } from "../../../shared/operator/failed.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ShowOptions = { configDir: string; json?: boolean; full?: boolean; bodyOnly?: boolean };

/** `postern failed show`: all that is known of one failed call. 1 if the call is not among the failed ones. */
export function showFailed(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async (session) => {
    const calls = createFailedApi(session);
    if (options.bodyOnly) {
      writeBody(deps, id, await calls.body(id));
      return EXIT.ok;
    }
    const call = await calls.show(id);
    const body = isRead(call) ? await calls.body(id) : undefined;
    if (options.json)
      deps.print(jsonLine({ ...call, ...(body && { body_base64: body.toString("base64") }) }));
    else deps.print(inWords(call, body, options.full ?? false));
    return EXIT.ok;
  });
}

/** Whether what is stored is a call of this version, of which alone the body is known. */
function isRead({ metadata }: FailedCallDetail): boolean {
  return metadata !== undefined;
}

function writeBody({ terminal }: ProgramDeps, id: string, body: Buffer): void {
  if (terminal.columns !== undefined && body.length > 0 && asText(body) === undefined)
    throw new Error(`${id}: the body is no plain text, and could control your terminal; write it to a file`);
  terminal.writeBytes(body);
}

function inWords(call: FailedCallDetail, body: Buffer | undefined, full: boolean): string {
  const known = facts([
    ["call", call.id],
    ["failed at", call.failed_at],
    ["code", call.code],
    ["reason", call.reason],
    ["record", call.record ?? "none (the call came without a delivery id)"],
    ["origin", call.origin],
    ["service", String(call.service_id)],
    ["job", String(call.job_id)],
    ["accepted at", call.accepted_at],
    ["traceparent", call.traceparent],
    ["attempts", `${call.attempts} since it was queued or last replayed`],
  ]);
  const history = section("failed attempts", call.failed_attempts.map(attemptRow).join(""));
  if (body === undefined) {
    const unread = bodyText(Buffer.from(JSON.stringify(call.stored) ?? ""), { full });
    return known + history + section("stored (no call of this version)", unread);
  }
  const metadata = section("metadata", facts(Object.entries(call.metadata ?? {}), "  "));
  return known + history + metadata + section(bodyHeading(call, body), bodyText(body, { full }));
}

function attemptRow({ n, at, code, reason, worker }: FailedCallDetail["failed_attempts"][number]): string {
  return `  attempt ${n}  ${at}  ${plain(`${code}: ${reason}`)}  (worker ${plain(worker)})\n`;
}

function bodyHeading({ bytes, content_type, sha256 }: FailedCallDetail, body: Buffer): string {
  const changed = sha256Hex(body) === sha256 ? "" : ", which these bytes do not have";
  const type = content_type === undefined ? "no content type" : plain(content_type);
  return `body (${bytes} bytes, ${type}, sha256 ${sha256}${changed})`;
}

function section(heading: string, content: string): string {
  return content === "" ? "" : `\n${heading}\n${content}`;
}

/** Matches what a screen cannot show as it stands: control characters, except tabs and line ends. */
const NOT_TEXT = /[^\P{Cc}\t\r\n]|\r(?!\n)/u;

const TEXT_MAX = 4096;
const HEX_BYTES_MAX = 512;
const HEX_BYTES_PER_LINE = 32;

/** A body for people: as text if it is text, else in hex. A long body is cut, and says so, unless `full`. */
export function bodyText(body: Buffer, { full }: { full: boolean }): string {
  if (body.length === 0) return "(empty)\n";
  const text = asText(body);
  return text === undefined ? hex(body, full) : cutText(text, full);
}

function asText(body: Buffer): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return NOT_TEXT.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function cutText(text: string, full: boolean): string {
  if (full || text.length <= TEXT_MAX) return text.endsWith("\n") ? text : `${text}\n`;
  return `${text.slice(0, TEXT_MAX)}\n… and ${text.length - TEXT_MAX} more characters (--full shows all)\n`;
}

function hex(body: Buffer, full: boolean): string {
  const shown = full ? body : body.subarray(0, HEX_BYTES_MAX);
  const lines = shown.toString("hex").match(new RegExp(`.{1,${2 * HEX_BYTES_PER_LINE}}`, "g")) ?? [];
  const rest = body.length - shown.length;
  const more = rest > 0 ? `… and ${rest} more bytes (--full shows all)\n` : "";
  return `${lines.join("\n")}\n${more}`;
}
