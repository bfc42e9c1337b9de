import { isIP, isIPv4, type LookupFunction } from "node:net";
import { Agent, type buildConnector } from "undici";
import { createConnector } from "../../../shared/http/connector.ts";
import type { AddressList } from "../../../shared/http/ip/address-list.ts";
import { isWithin, mayConnectTo } from "../../../shared/http/ip/public-address.ts";
import { createResolve, type Resolve } from "./resolve.ts";

/** Error of a request whose host has a forbidden address. */
export class AddressForbidden extends Error {
  constructor(hostname: string, address: string, protocol: string) {
    const leads = hostname === address ? address : `${hostname} resolves to ${address}, which`;
    const why =
      protocol === "http:"
        ? "is not in allow_cidrs, as http requires"
        : "is neither public nor in allow_cidrs";
    super(`${leads} ${why}`);
  }
}

const CONNECT_TIMEOUT_MS = 5000;
const KEEP_ALIVE_MS = 4000;

type Options = {
  /** Address ranges that are not public, but may be connected to. */
  allowed: AddressList;
  /** Maximum number of connections to each server. */
  connections: number;
  resolve?: Resolve;
  /** Certificate authorities, instead of the system's. */
  ca?: string | undefined;
};

/**
 * Creates an HTTP agent for URLs that clients can influence. It connects only to public addresses of the internet and to
 * allowed ones; without TLS, only to allowed ones. Each connection resolves the name once and checks the resulting addresses.
 * If one of them is forbidden, none is used. So a DNS server cannot give one address to the check and another to the
 * connection.
 *
 * The agent follows no redirect and uses no proxy.
 */
export function createGuardedAgent({ allowed, connections, resolve = createResolve(), ca }: Options): Agent {
  const https = connectorTo("https:", (address) => mayConnectTo(address, allowed));
  const http = connectorTo("http:", (address) => isWithin(address, allowed));

  function connectorTo(protocol: string, mayConnect: (address: string) => boolean): buildConnector.connector {
    const lookup: LookupFunction = (hostname, { all }, callback) => {
      const answer = (error: unknown, addresses: readonly string[]): void => {
        const [first = "", bad] = [addresses[0], addresses.find((address) => !mayConnect(address))];
        const failure = bad === undefined ? error : new AddressForbidden(hostname, bad, protocol);
        if (failure !== undefined) callback(failure as NodeJS.ErrnoException, "");
        else if (all) callback(null, addresses.map(withFamily));
        else callback(null, first, familyOf(first));
      };
      resolve(hostname).then(
        (addresses) =>
          answer(addresses.length > 0 ? undefined : new Error(`${hostname} has no address`), addresses),
        (error: unknown) => answer(error, []),
      );
    };
    const connect = createConnector({ timeout: CONNECT_TIMEOUT_MS, lookup, ...(ca !== undefined && { ca }) });

    return (options, callback) => {
      const { hostname } = options;
      // If the host is an address and not a name, the socket does not call `lookup`, so the address must be checked here.
      if (isIP(hostname) !== 0 && !mayConnect(hostname))
        return callback(new AddressForbidden(hostname, hostname, protocol), null);
      connect(options, (...[error, socket]) => {
        if (error !== null) return callback(error, null);
        const { remoteAddress = "" } = socket;
        if (mayConnect(remoteAddress)) return callback(null, socket);
        socket.destroy();
        callback(new AddressForbidden(hostname, remoteAddress, protocol), null);
      });
    };
  }

  return new Agent({
    connections,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // These two timeouts of undici are disabled, because the caller sets one time limit for the request as a whole.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (options, callback) => (options.protocol === "https:" ? https : http)(options, callback),
  });
}

function withFamily(address: string) {
  return { address, family: familyOf(address) };
}

function familyOf(address: string): 4 | 6 {
  return isIPv4(address) ? 4 : 6;
}
