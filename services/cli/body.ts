import { BODY_BYTES_MAX } from "../../shared/call/job-call.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import { lostCharacter, readBytes } from "../../shared/platform/text/read-text.ts";
import type { BodyOptions } from "./options.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** Returns the body from --body or the file of --body-file. Undefined if neither option was given. */
export function readBody({ body, bodyFile }: BodyOptions): Uint8Array | undefined {
  if (bodyFile !== undefined) return bodyIn(bodyFile);
  return body === undefined ? undefined : bodyOf(body);
}

/** Reads the bytes of a file, or of standard input (0). */
export function bodyIn(file: string | 0): Buffer {
  try {
    return readBytes(file, BODY_BYTES_MAX);
  } catch (cause) {
    throw new Error(`the body ${messageOf(cause)}`, { cause });
  }
}

/**
 * Returns the bytes of a command-line argument. Throws if the argument was not UTF-8: Node has then replaced its
 * invalid bytes, and the original ones are lost.
 */
export function bodyOf(text: string): Buffer {
  const problem = lostCharacter(text);
  if (problem !== undefined) throw new Error(`the body ${problem}, or pass its bytes in a file`);
  return Buffer.from(text);
}

/**
 * Writes a body's bytes unchanged to stdout. Throws if stdout is a terminal and the body is not text, because its bytes
 * could control the terminal.
 */
export function writeBody({ terminal }: ProgramDeps, id: string, body: Buffer): void {
  if (terminal.columns !== undefined && body.length > 0 && asText(body) === undefined)
    throw new Error(
      `${id}: the content is not plain text and could control your terminal; redirect it to a file`,
    );
  terminal.writeBytes(body);
}

/** Whether a body is JSON, in UTF-8. */
export function isJson(body: Uint8Array | undefined): boolean {
  try {
    JSON.parse(decoded(body));
    return true;
  } catch {
    return false;
  }
}

/** Decodes UTF-8; throws if the bytes are not UTF-8. */
function decoded(body: Uint8Array | undefined): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
}

/**
 * Matches characters that make a body unsafe to print on a terminal. These are control characters other than tabs and
 * line ends, and characters that change the direction of text.
 */
const NOT_TEXT = /[^\P{Cc}\t\r\n]|\r(?!\n)|[\u202A-\u202E\u2066-\u2069]/u;

const TEXT_MAX = 4096;
const HEX_BYTES_MAX = 512;
const HEX_BYTES_PER_LINE = 32;

/** Formats a body for people: text as it is, and any other body in hex. Unless `full` is set, cuts a long body and says so. */
export function bodyText(body: Buffer, { full }: { full: boolean }): string {
  if (body.length === 0) return "(empty)\n";
  const text = asText(body);
  return text === undefined ? hex(body, full) : cutText(text, full);
}

function asText(body: Buffer): string | undefined {
  try {
    const text = decoded(body);
    return NOT_TEXT.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function cutText(text: string, full: boolean): string {
  if (full || text.length <= TEXT_MAX) return text.endsWith("\n") ? text : `${text}\n`;
  const shown = cut(text, TEXT_MAX);
  return `${shown}\n… and ${text.length - shown.length} more characters (--full shows all)\n`;
}

function hex(body: Buffer, full: boolean): string {
  const shown = full ? body : body.subarray(0, HEX_BYTES_MAX);
  const lines = shown.toString("hex").match(new RegExp(`.{1,${2 * HEX_BYTES_PER_LINE}}`, "g")) ?? [];
  const rest = body.length - shown.length;
  const more = rest > 0 ? `… and ${rest} more bytes (--full shows all)\n` : "";
  return `${lines.join("\n")}\n${more}`;
}
