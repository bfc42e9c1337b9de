import { isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";
import { type AddressList, createAddressList } from "./address-list.ts";

/**
 * Addresses outside the public internet, from IANA's registries of special-purpose addresses. A stranger can name a
 * host that resolves to one of them, and a request to it would reach this process's own network. Addresses that are not
 * routed today are included too.
 */
const SPECIAL_IPV4 = createAddressList([
  "0.0.0.0/8", // this host, this network
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT; metadata of Alibaba Cloud
  "127.0.0.0/8", // loopback
  "168.63.129.16", // the host of a virtual machine of Azure
  "169.254.0.0/16", // link-local; metadata of most clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // IETF protocol assignments; metadata of Oracle Cloud
  "192.0.2.0/24", // documentation
  "192.31.196.0/24", // AS112
  "192.52.193.0/24", // AMT
  "192.88.99.0/24", // relays of 6to4
  "192.168.0.0/16", // private
  "192.175.48.0/24", // AS112
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved; broadcast
]);

/**
 * Range from which all public IPv6 addresses are assigned. Loopback, link-local, unique local and multicast addresses
 * are outside it.
 */
const GLOBAL_IPV6 = createAddressList(["2000::/3"]);

const SPECIAL_IPV6 = createAddressList([
  "2001::/23", // IETF protocol assignments: Teredo, ORCHID, benchmarks
  "2001:db8::/32", // documentation
  "2620:4f:8000::/48", // AS112
  "3fff::/20", // documentation
]);

/**
 * Prefixes of IPv6 addresses that embed an IPv4 address, and the offset of the IPv4 address in bytes. Packets to such
 * an address reach the embedded IPv4 address.
 */
const EMBEDDING = [
  { holds: createAddressList(["64:ff9b::/96"]), at: 12 }, // NAT64
  { holds: createAddressList(["2002::/16"]), at: 2 }, // 6to4
];

/**
 * Returns whether a connection to this address is permitted: it is on the public internet, or in `allowed`. For an IPv6
 * address that embeds an IPv4 address, the IPv4 address decides. A text that is not an address is not permitted.
 */
export function mayConnectTo(text: string, allowed: AddressList): boolean {
  if (isWithin(text, allowed)) return true;
  const address = innermost(withoutZone(text));
  if (isIPv4(address)) return !SPECIAL_IPV4.matches(address);
  return GLOBAL_IPV6.matches(address) && !SPECIAL_IPV6.matches(address);
}

/**
 * Returns whether one of these ranges contains the address. For an IPv6 address that embeds an IPv4 address, the IPv4
 * address decides.
 */
export function isWithin(text: string, ranges: AddressList): boolean {
  return ranges.matches(innermost(withoutZone(text)));
}

/** Names that the public DNS does not have (RFC 6761, RFC 6762, RFC 8375, and ICANN's `internal`). */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|local|internal|test|example|invalid|home\.arpa)\.?$/;

/** Returns whether the host of a URL can be public, judged by its name. A name without a dot cannot. */
export function isPublicHost(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, "$1");
  if (isIPv4(address) || isIPv6(address)) return mayConnectTo(address, NO_ADDRESS);
  return /[^.]\.[^.]/.test(host) && !PRIVATE_NAME.test(host);
}

const NO_ADDRESS = createAddressList([]);

function withoutZone(text: string): string {
  return text.replace(/%.*$/, "");
}

/** Returns the IPv4 address embedded in this address, otherwise the address itself. */
function innermost(text: string): string {
  if (!isIPv6(text)) return text;
  const address = ipaddr.IPv6.parse(text);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  const { at } = EMBEDDING.find(({ holds }) => holds.matches(text)) ?? {};
  return at === undefined
    ? text
    : address
        .toByteArray()
        .slice(at, at + 4)
        .join(".");
}
