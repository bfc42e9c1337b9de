import { parseBoundedJson } from "../text/bounded-json.ts";

/** Node takes 16 KiB of headers in all. */
const HEADER_BYTES_MAX = 14 * 1024;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The JSON object that a header holds in padded base64, or what is wrong with it. */
export function decodeBase64Json(header: string): { value: object } | { problem: string } {
  if (header.length > HEADER_BYTES_MAX) return { problem: `is over ${HEADER_BYTES_MAX} bytes` };
  if (!BASE64.test(header) || header.length % 4 !== 0) return { problem: "is not padded base64" };
  const parsed = parseBoundedJson(Buffer.from(header, "base64"));
  if (!parsed.ok) return { problem: `holds text that ${parsed.problem}` };
  const { value } = parsed;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value };
  return { problem: "does not hold a JSON object" };
}
