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
  const network = ipaddr.IPv6.parse(address).parts.slice(0, 4);
  return `${new ipaddr.IPv6([...network, 0, 0, 0, 0]).toRFC5952String()}/64`;
}
