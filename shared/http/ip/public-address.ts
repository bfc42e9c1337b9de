import { isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";
import { type AddressList, createAddressList } from "./address-list.ts";

/**
 * Everything that is not the public internet, by IANA's registries of special-purpose addresses, whether it is routed today or not.
 * A name that leads to one of them leads into the network of whoever asks.
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

/** Of IPv6 only this is given to anybody: loopback, link-local, unique local and multicast addresses lie outside of it. */
const GLOBAL_IPV6 = createAddressList(["2000::/3"]);

const SPECIAL_IPV6 = createAddressList([
  "2001::/23", // IETF protocol assignments: Teredo, ORCHID, benchmarks
  "2001:db8::/32", // documentation
  "2620:4f:8000::/48", // AS112
  "3fff::/20", // documentation
]);

/** Prefixes before an IPv4 address, by how many bytes they have: what is sent to such an address arrives at the IPv4 one. */
const EMBEDDING = [
  { holds: createAddressList(["64:ff9b::/96"]), at: 12 }, // NAT64
  { holds: createAddressList(["2002::/16"]), at: 2 }, // 6to4
];

/**
 * Whether an address may be connected to: it is of the public internet, or `allowed` has it. An IPv4 address inside of an IPv6 one
 * counts as itself. What is no address may not.
 */
export function mayConnectTo(text: string, allowed: AddressList): boolean {
  if (isWithin(text, allowed)) return true;
  const address = innermost(withoutZone(text));
  if (isIPv4(address)) return !SPECIAL_IPV4.matches(address);
  return GLOBAL_IPV6.matches(address) && !SPECIAL_IPV6.matches(address);
}

/** Whether one of these ranges has the address. An IPv4 address inside of an IPv6 one counts as itself. */
export function isWithin(text: string, ranges: AddressList): boolean {
  return ranges.matches(innermost(withoutZone(text)));
}

/** Names that no public DNS has (RFC 6761, RFC 6762, RFC 8375, and ICANN's `internal`). */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|local|internal|test|example|invalid|home\.arpa)\.?$/;

/** Whether the host of a URL can be reached from the public internet, as far as its name tells. A name without a dot cannot. */
export function isPublicHost(host: string): boolean {
  const address = host.replace(/^\[(.*)\]$/, "$1");
  if (isIPv4(address) || isIPv6(address)) return mayConnectTo(address, NO_ADDRESS);
  return /[^.]\.[^.]/.test(host) && !PRIVATE_NAME.test(host);
}

const NO_ADDRESS = createAddressList([]);

function withoutZone(text: string): string {
  return text.replace(/%.*$/, "");
}

/** The IPv4 address inside of this one, if there is one; else this. */
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
