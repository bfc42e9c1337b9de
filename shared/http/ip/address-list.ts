import { isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/** List of addresses and ranges. */
export type AddressList = {
  /** Returns false for a text that is not an address. An IPv4-mapped IPv6 address counts as its IPv4 address. */
  matches(address: string): boolean;
};

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Creates a list. Throws for an entry in which `addressRangeProblem` finds a problem. */
export function createAddressList(entries: readonly string[]): AddressList {
  const ranges = entries.map((entry) => {
    const problem = addressRangeProblem(entry);
    if (problem !== undefined) throw new Error(`${entry} ${problem}`);
    return toRange(entry);
  });
  return {
    matches(address) {
      if (ranges.length === 0 || !(isIPv4(address) || isIPv6(address))) return false;
      const asked = ipaddr.process(address);
      return ranges.some(([network, bits]) => network.kind() === asked.kind() && asked.match(network, bits));
    },
  };
}

/**
 * Returns the problem of an entry that should be an address or a CIDR range (RFC 4632, RFC 4291), such as
 * `203.0.113.7`, `203.0.113.0/24` or `2001:db8::/32`. Each range has exactly one accepted notation, so that no range is
 * wider than it looks.
 */
export function addressRangeProblem(entry: string): string | undefined {
  const [, address = "", bits] = /^([^/%]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(entry) ?? [];
  if (!isIPv4(address) && !isIPv6(address)) {
    return "must be an address or a range, such as 203.0.113.0/24 or 2001:db8::/32";
  }
  const width = isIPv4(address) ? 32 : 128;
  if (bits !== undefined && Number(bits) > width) return `has a prefix longer than ${width} bits`;
  const [parsed, prefix] = toRange(entry);
  if (parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress()) return "must be written as IPv4";
  const network = networkOf(parsed, prefix);
  return parsed.toString() === network ? undefined : `has bits beyond its prefix: write ${network}/${prefix}`;
}

/**
 * Returns whether the entries together cover every IPv4 address, or every IPv6 address. The entries must have passed
 * `addressRangeProblem`. Then two ranges are either nested or disjoint.
 */
export function coversEveryAddress(entries: readonly string[]): boolean {
  const ranges = entries.map(toRange);
  const holds = ([network, bits]: Range, [other, otherBits]: Range) =>
    network.kind() === other.kind() && bits <= otherBits && other.match(network, bits);
  const widest = ranges.filter(
    (range, index) =>
      !ranges.some(
        (other, at) => at !== index && holds(other, range) && (at < index || !holds(range, other)),
      ),
  );
  const shareOf = (kind: "ipv4" | "ipv6") =>
    widest.filter(([network]) => network.kind() === kind).reduce((share, [, bits]) => share + 2 ** -bits, 0);
  return shareOf("ipv4") === 1 || shareOf("ipv6") === 1;
}

function toRange(entry: string): Range {
  if (entry.includes("/")) return ipaddr.parseCIDR(entry);
  const address = ipaddr.parse(entry);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

function networkOf(address: ipaddr.IPv4 | ipaddr.IPv6, prefix: number): string {
  const cidr = `${address.toString()}/${prefix}`;
  const kind = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  return kind.networkAddressFromCIDR(cidr).toString();
}
