import { isIP, isIPv4, type LookupFunction } from "node:net";
import { Agent, type buildConnector } from "undici";
import { createConnector } from "../../../shared/http/connector.ts";
import type { AddressList } from "../../../shared/http/ip/address-list.ts";
import { isWithin, mayConnectTo } from "../../../shared/http/ip/public-address.ts";
import { createResolve, type Resolve } from "./resolve.ts";

/** The host of a request leads to where no request may go. */
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
  /** Ranges that are not public, and may be connected to all the same. */
  allowed: AddressList;
  /** To each server. */
  connections: number;
  resolve?: Resolve;
  /** In place of the system's certificates. */
  ca?: string | undefined;
};

/**
 * An agent for URLs that strangers have a say in. It connects only to addresses of the public internet, and to those that are allowed;
 * without TLS only to the latter. What is looked at is the address that the socket then connects to: the name is resolved once, by the
 * connection itself, and if any of its addresses is forbidden, none is used. So no server of DNS can answer differently in between.
 *
 * It follows no redirect, and knows of no proxy.
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
      // A socket asks nobody for an address that is written out.
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
    // An exchange has one time limit, which the caller sets.
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
