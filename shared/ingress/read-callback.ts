import type { IncomingMessage } from "node:http";
import { createReceiverList, readTarget, type Target, toTarget } from "../call/callback-target.ts";
import { platformKeys } from "../call/job-call.ts";
import { headerValues } from "../http/headers.ts";
import { AppError } from "../platform/errors/app-error.ts";

/** Receiver to which a call's callback will be sent. */
export type ChosenCallback = {
  target: Target;
  /** True if the request names the receiver and only a wildcard of `callback_hosts` allows it. */
  byWildcard: boolean;
};

/**
 * Returns the receiver for this request's call; undefined if it has no receiver. `own` is the receiver that the
 * operator has configured for the endpoint or job, if any. Throws `request.malformed`, `callback.refused`, and
 * `queue.overloaded` if too many callbacks wait for a receiver that the request names.
 */
export type ReadCallback = (req: IncomingMessage, own: Target | undefined) => ChosenCallback | undefined;

/** Header for clients that do not know the operator's metadata prefix. Every gateway accepts it. */
const DEFAULT_HEADER = "X-PLATFORM-CALLBACK";

/** Returns the headers in which a request may name its receiver. Only one of them may be present. */
export function callbackHeaders(metadataPrefix: string): string[] {
  return [...new Set([platformKeys(metadataPrefix).callback.toUpperCase(), DEFAULT_HEADER])];
}

type Options = {
  metadataPrefix: string;
  /** Hosts of the receivers that requests may name. */
  hosts: readonly string[];
  /** Throws `queue.overloaded` while too many callbacks wait for this receiver. */
  assertReceiverOpen: (receiver: string) => void;
};

/**
 * Creates the function that chooses the receiver. If a request names a receiver to which no callback can be sent, the
 * request is refused, because its client relies on the callback.
 */
export function createReadCallback({ metadataPrefix, hosts, assertReceiverOpen }: Options): ReadCallback {
  const headers = callbackHeaders(metadataPrefix);
  const names = headers.map((name) => name.toLowerCase());
  const allowed = createReceiverList(hosts);

  function fromClient(req: IncomingMessage): ChosenCallback {
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
