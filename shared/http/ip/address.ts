import { isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * The one text of an address (RFC 5952): IPv6 in lower case and shortened, an IPv4-mapped one as IPv4, without a zone.
 * Undefined if it is no address. Forms that only some programs read, as `127.1` and `0177.0.0.1`, are none.
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const address = text.replace(/%.*$/, "");
  if (!isIPv6(address)) return undefined;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.toRFC5952String();
}

/**
 * What an address is counted under: an IPv4 address by itself, an IPv6 address by its /64, which is the least that one
 * subscriber has. A text that is no address is its own key.
 */
export function addressKey(text: string): string {
  if (isIPv4(text)) return text;
  const address = canonicalAddress(text);
  if (address === undefined || isIPv4(address)) return address ?? text;
  return networkOf(address, 4);
}

/**
 * The networks of an `addressKey`, the narrowest first: itself, and of IPv6 also the /48, which is what one site may get. Who has a /48 has
 * 65,536 keys.
 */
export function networksOf(key: string): string[] {
  const [address = ""] = key.split("/");
  return isIPv6(address) ? [key, networkOf(address, 3)] : [key];
}

/** The network that has these first words of 16 bits, of an IPv6 address. */
function networkOf(address: string, words: number): string {
  const parts = ipaddr.IPv6.parse(address).parts.map((part, i) => (i < words ? part : 0));
  return `${new ipaddr.IPv6(parts).toRFC5952String()}/${16 * words}`;
}
