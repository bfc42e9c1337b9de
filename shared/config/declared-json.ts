import { resolve } from "node:path";
import { messageOf } from "../platform/errors/app-error.ts";
import { INPUT_BYTES_MAX } from "../platform/json-schema/job-input.ts";
import { decodeText, readBytes } from "../platform/text/read-text.ts";

/** The parsed JSON or the reason of a failure. Both are absent if there was no value. */
type Read = { json?: unknown; message?: string };

/** Reads JSON that a key gives as the path of a file, relative to `dir`, or directly as a value. */
export function readDeclaredJson(value: unknown, dir: string | undefined): Read {
  if (value === undefined) return {};
  if (typeof value === "string") return readFile(value, dir);
  if (!isJson(value)) return { message: "must not contain a date or a number that JSON cannot represent" };
  return parse(Buffer.from(JSON.stringify(value)));
}

function readFile(path: string, dir: string | undefined): Read {
  if (dir === undefined) return { message: "must be the value itself, not the path of a file" };
  try {
    return parse(readBytes(resolve(dir, path), INPUT_BYTES_MAX));
  } catch (error) {
    return { message: `names a file that ${messageOf(error)}` };
  }
}

function parse(bytes: Buffer): Read {
  if (bytes.length > INPUT_BYTES_MAX) return { message: `must be at most ${INPUT_BYTES_MAX} bytes` };
  try {
    return { json: JSON.parse(decodeText(bytes)) };
  } catch (error) {
    return { message: `must be JSON (${messageOf(error)})` };
  }
}

/** Whether a value can be JSON. TOML has dates and numbers that JSON lacks, and code has more types. */
function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (Array.isArray(value)) return value.every(isJson);
  if (typeof value !== "object" || value instanceof Date) return false;
  return Object.values(value).every(isJson);
}
