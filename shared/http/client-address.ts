import type { IncomingMessage } from "node:http";
import { headerValues } from "./headers.ts";
import { canonicalAddress } from "./ip/address.ts";
import { createAddressList } from "./ip/address-list.ts";

/** The header in which a proxy says for whom it asks. */
export type ForwardedHeader = "X-Forwarded-For" | "Forwarded";

type Options = {
  /** Addresses and CIDR ranges of the proxies whose word counts. */
  trustedProxies?: readonly string[] | undefined;
  forwardedHeader?: ForwardedHeader | undefined;
};

/** The address that a request counts for, in its canonical text. */
export type ClientAddressOf = (req: Addressed) => string;

/** A request of HTTP, or of another protocol with such headers. */
export type Addressed = Pick<IncomingMessage, "rawHeaders"> & {
  socket: { readonly remoteAddress?: string | undefined };
};

/** More proxies than this are on nobody's way. */
const HOPS_MAX = 16;

/**
 * Without a trusted proxy a request counts for its peer. A trusted proxy is believed which address it had the request from:
 * so the header is read from its right end for as long as the address found is a trusted proxy again. An entry that is no
 * address (`unknown`, an obfuscated name, garbage) ends the walk at the proxy that wrote it; an empty one is none. Exactly
 * one header counts, because a proxy passes the other one on as a stranger wrote it.
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

/** On the connection itself: it has many requests, and one address at its other end. */
const ADDRESS = Symbol("address");

type MarkedSocket = Addressed["socket"] & { [ADDRESS]?: string };

/** The address at the other end of the connection; `unknown` once that is gone. */
function peerAddress({ socket }: { socket: MarkedSocket }): string {
  const known = socket[ADDRESS];
  if (known !== undefined) return known;
  const { remoteAddress } = socket;
  if (remoteAddress === undefined) return "unknown";
  const address = canonicalAddress(remoteAddress) ?? remoteAddress;
  socket[ADDRESS] = address;
  return address;
}

/** Where the last element of `list` before `end` ends. Empty elements are ignored (RFC 9110, section 5.6.1). */
function endOfLast(list: string, end: number): number {
  let at = end;
  while (at > 0 && ", \t".includes(list.charAt(at - 1))) at -= 1;
  return at;
}

/**
 * Where the last element of `list` before `end` starts. It is looked for from the right, which a trusted proxy wrote: a
 * stranger's open quote further left cannot swallow it.
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

/** The address in the `for` of an element of Forwarded (RFC 7239, section 4), which has to come once. */
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

/** The address of `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80` or `2001:db8::1`. */
function nodeAddress(node: string): string | undefined {
  if (node.includes("%")) return undefined; // a zone means something to its own host only
  const bracketed = /^\[([0-9a-fA-F:.]+)\](?::\d{1,5})?$/.exec(node);
  if (bracketed !== null) return bracketed[1]?.includes(":") ? canonicalAddress(bracketed[1]) : undefined;
  return canonicalAddress(/^([\d.]+):\d{1,5}$/.exec(node)?.[1] ?? node);
}
