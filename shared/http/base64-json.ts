/** Node takes 16 KiB of headers in all. */
const HEADER_BYTES_MAX = 14 * 1024;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The JSON object that a header holds in padded base64, or what is wrong with it. */
export function decodeBase64Json(header: string): { value: object } | { problem: string; cause?: unknown } {
  if (header.length > HEADER_BYTES_MAX) return { problem: `is over ${HEADER_BYTES_MAX} bytes` };
  if (!BASE64.test(header) || header.length % 4 !== 0) return { problem: "is not padded base64" };
  try {
    const value: unknown = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value };
  } catch (cause) {
    return { problem: "does not hold JSON", cause };
  }
  return { problem: "does not hold a JSON object" };
}
