import { parseBoundedJson } from "../platform/text/bounded-json.ts";

/** Limit on the length of the header. It is below Node's limit of 16 KiB for all headers together. */
const HEADER_BYTES_MAX = 14 * 1024;
/** Base64 with complete padding or none. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/** Decodes a header that holds a JSON object in base64, padded or not. Returns the object or the problem. */
export function decodeBase64Json(header: string): { value: object } | { problem: string } {
  if (header.length > HEADER_BYTES_MAX) return { problem: `is over ${HEADER_BYTES_MAX} bytes` };
  if (header === "" || !BASE64.test(header)) return { problem: "is not base64" };
  const parsed = parseBoundedJson(Buffer.from(header, "base64"));
  if (!parsed.ok) return { problem: `contains text that ${parsed.problem}` };
  const { value } = parsed;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value };
  return { problem: "does not contain a JSON object" };
}
