import { isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Returns the canonical text of an address (RFC 5952). IPv6 is in lower case and shortened, without its zone. An
 * IPv4-mapped address becomes IPv4. Returns undefined if the text is not an address. Forms that only some programs
 * accept, such as `127.1` and `0177.0.0.1`, are not addresses.
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const address = text.replace(/%.*$/, "");
  if (!isIPv6(address)) return undefined;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.toRFC5952String();
}

/**
 * Returns the key under which limits count a client's address. An IPv4 address is its own key. The key of an IPv6
 * address is its /64, because every subscriber has at least a /64 and may use all of its addresses. A text that is not
 * an address is its own key.
 */
export function addressKey(text: string): string {
  if (isIPv4(text)) return text;
  const address = canonicalAddress(text);
  if (address === undefined || isIPv4(address)) return address ?? text;
  return networkOf(address, 4);
}

/**
 * Returns the networks in which limits count an `addressKey`, narrowest first. The first is the key itself. For IPv6,
 * the second is its /48, which contains 65,536 keys and may belong to one site.
 */
export function networksOf(key: string): string[] {
  const [address = ""] = key.split("/");
  return isIPv6(address) ? [key, networkOf(address, 3)] : [key];
}

/** Returns the network that contains an IPv6 address, with a prefix of this number of 16-bit words. */
function networkOf(address: string, words: number): string {
  const parts = ipaddr.IPv6.parse(address).parts.map((part, i) => (i < words ? part : 0));
  return `${new ipaddr.IPv6(parts).toRFC5952String()}/${16 * words}`;
}
