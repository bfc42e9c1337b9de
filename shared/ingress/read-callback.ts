import type { IncomingMessage } from "node:http";
import { createReceiverList, readTarget, type Target, toTarget } from "../call/callback-target.ts";
import { platformKeys } from "../call/job-call.ts";
import { headerValues } from "../http/headers.ts";
import { AppError } from "../platform/errors/app-error.ts";

/** Where the end of a call is to be told. */
export type CallbackAsked = {
  target: Target;
  /** Whether the request names it, and only a wildcard of `callback_hosts` allows it. */
  byWildcard: boolean;
};

/**
 * Where the end of this request's call is to be told; undefined if nowhere. `own` is the operator's receiver, if there is one. Throws
 * `request.malformed`, `callback.refused`, and `queue.overloaded` if too many callbacks wait for a receiver that the request names.
 */
export type ReadCallback = (req: IncomingMessage, own: Target | undefined) => CallbackAsked | undefined;

/** Clients need not know the operator's brand. */
const DEFAULT_HEADER = "X-PLATFORM-CALLBACK";

/** The headers that a request may name its own receiver in, one of them. */
export function callbackHeaders(metadataPrefix: string): string[] {
  return [...new Set([platformKeys(metadataPrefix).callback.toUpperCase(), DEFAULT_HEADER])];
}

type Options = {
  metadataPrefix: string;
  /** The receivers that a request may name. */
  hosts: readonly string[];
  /** Throws `queue.overloaded` while too many callbacks wait for this receiver. */
  assertReceiverOpen: (receiver: string) => void;
};

/** A request that names a receiver is refused if that one would not be told: its client relies on it. */
export function createReadCallback({ metadataPrefix, hosts, assertReceiverOpen }: Options): ReadCallback {
  const headers = callbackHeaders(metadataPrefix);
  const names = headers.map((name) => name.toLowerCase());
  const allowed = createReceiverList(hosts);

  function fromClient(req: IncomingMessage): CallbackAsked {
    const [text = "", ...more] = names.flatMap((name) => headerValues(req, name));
    const read = more.length > 0 ? { problem: "was sent more than once" } : readTarget(text);
    if ("problem" in read)
      throw AppError.public("request.malformed", `the header ${headers[0]} ${read.problem}`);
    const match = allowed.match(read.url);
    if (match === undefined) throw refused("its host is not in callback_hosts");
    const target = toTarget(read.url);
    assertReceiverOpen(target.receiver);
    return { target, byWildcard: match === "wildcard" };
  }

  return (req, own) => {
    if (names.every((name) => req.headers[name] === undefined))
      return own && { target: own, byWildcard: false };
    if (own !== undefined) throw refused("this endpoint or job has its own callback_url");
    return fromClient(req);
  };
}

function refused(why: string): AppError {
  return AppError.public("callback.refused", `the request names a callback URL, but ${why}`);
}
