import type { IncomingMessage } from "node:http";
import { headerValues } from "./headers.ts";
import { canonicalAddress } from "./ip/address.ts";
import { createAddressList } from "./ip/address-list.ts";

/** Header in which a proxy names the client for which it forwards the request. */
export type ForwardedHeader = "X-Forwarded-For" | "Forwarded";

type Options = {
  /** Addresses and CIDR ranges of the trusted proxies. */
  trustedProxies?: readonly string[] | undefined;
  forwardedHeader?: ForwardedHeader | undefined;
};

/** Returns the client address of a request, in its canonical text. */
export type ClientAddressOf = (req: Addressed) => string;

/** An HTTP or gRPC request. */
export type Addressed = Pick<IncomingMessage, "rawHeaders"> & {
  socket: { readonly remoteAddress?: string | undefined };
};

/** Limit on proxies between client and server; real chains are shorter. */
const HOPS_MAX = 16;

/**
 * Creates the function that finds a request's client address. Without a trusted proxy it is the peer's address.
 *
 * Each trusted proxy appends the address of its own client to the header. So the header is read from right to left, as
 * long as the last address found is a trusted proxy. An entry that is not an address (`unknown`, an obfuscated name,
 * garbage) ends the search, and the result is the proxy that wrote this entry. Empty entries are skipped. Only the
 * configured header is read. A proxy passes the other one of X-Forwarded-For and Forwarded on unchanged, so a stranger
 * may have written it.
 */
export function createClientAddressOf({
  trustedProxies = [],
  forwardedHeader,
}: Options = {}): ClientAddressOf {
  const trusted = createAddressList(trustedProxies);
  const isForwarded = forwardedHeader === "Forwarded";
  const name = isForwarded ? "forwarded" : "x-forwarded-for";
  const addressIn = isForwarded ? forwardedAddress : nodeAddress;

  return (req) => {
    let address = peerAddress(req);
    if (trustedProxies.length === 0 || !trusted.matches(address)) return address;
    const header = headerValues(req, name).join(",");
    let end = endOfLast(header, header.length);
    for (let hop = 0; hop < HOPS_MAX && end > 0 && trusted.matches(address); hop++) {
      const start = startOfLast(header, end, isForwarded);
      const before = addressIn(header.slice(start, end).trim());
      if (before === undefined) return address;
      address = before;
      end = endOfLast(header, start - 1);
    }
    return address;
  };
}

/** Property of a connection that caches its address, because one connection may carry many requests. */
const ADDRESS = Symbol("address");

type MarkedSocket = Addressed["socket"] & { [ADDRESS]?: string };

/** Returns the address at the other end of the connection; `unknown` once the connection is gone. */
function peerAddress({ socket }: { socket: MarkedSocket }): string {
  const known = socket[ADDRESS];
  if (known !== undefined) return known;
  const { remoteAddress } = socket;
  if (remoteAddress === undefined) return "unknown";
  const address = canonicalAddress(remoteAddress) ?? remoteAddress;
  socket[ADDRESS] = address;
  return address;
}

/**
 * Returns the end index of the last element in `list` that is left of the index `end`. Empty elements are ignored (RFC 9110,
 * section 5.6.1).
 */
function endOfLast(list: string, end: number): number {
  let at = end;
  while (at > 0 && ", \t".includes(list.charAt(at - 1))) at -= 1;
  return at;
}

/**
 * Returns the start index of the last element in `list` that is left of the index `end`. It searches from the right
 * end, which a trusted proxy wrote. A stranger may have written a quote without its end further left. To a search from
 * the left, the proxy's element would be part of that quoted text.
 */
function startOfLast(list: string, end: number, hasQuotes: boolean): number {
  let inQuotes = false;
  for (let at = end - 1; at >= 0; at--) {
    if (list[at] === '"' && hasQuotes) inQuotes = !inQuotes;
    else if (list[at] === "," && !inQuotes) return at + 1;
  }
  return 0;
}

const PAIR = /^\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"([^"\\]*)"|([!#$%&'*+\-.^_`|~0-9A-Za-z]+))\s*$/;

/**
 * Returns the address in the `for` parameter of an element of Forwarded (RFC 7239, section 4). The parameter must occur
 * exactly once.
 */
function forwardedAddress(element: string): string | undefined {
  const pairs = element.match(/(?:"[^"]*"|[^;"])+/g) ?? [];
  if (pairs.join(";") !== element) return undefined;
  const nodes: string[] = [];
  for (const text of pairs) {
    const [matched, name = "", quoted, token = ""] = PAIR.exec(text) ?? [];
    if (matched === undefined) return undefined;
    if (name.toLowerCase() === "for") nodes.push(quoted ?? token);
  }
  const [node, ...more] = nodes;
  return node === undefined || more.length > 0 ? undefined : nodeAddress(node);
}

/** Parses the address of `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80` or `2001:db8::1`. */
function nodeAddress(node: string): string | undefined {
  if (node.includes("%")) return undefined; // a zone has a meaning only on its own host
  const bracketed = /^\[([0-9a-fA-F:.]+)\](?::\d{1,5})?$/.exec(node);
  if (bracketed !== null) return bracketed[1]?.includes(":") ? canonicalAddress(bracketed[1]) : undefined;
  return canonicalAddress(/^([\d.]+):\d{1,5}$/.exec(node)?.[1] ?? node);
}
