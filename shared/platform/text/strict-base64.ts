/**
 * Decodes base64 (RFC 4648, section 4) or base64url (section 5). Accepts only the spelling that Node writes, because
 * Node's decoder ignores invalid characters. Undefined for any other spelling.
 */
export function decodeStrictly(text: string, encoding: "base64" | "base64url"): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  return bytes.toString(encoding) === text ? bytes : undefined;
}
