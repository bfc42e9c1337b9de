import type { IncomingMessage } from "node:http";
import { AppError } from "../errors/app-error.ts";
import { headerValues } from "../http/headers.ts";
import { createReceiverList, readTarget, type Target, toTarget } from "../job-call/callback-target.ts";
import { platformKeys } from "../job-call/job-call.ts";

/**
 * Where the end of this request's call is to be told; undefined if nowhere. `own` is the operator's receiver, if there is one. Throws
 * `request.malformed` and `callback.refused`.
 */
export type ReadCallback = (req: IncomingMessage, own: Target | undefined) => Target | undefined;

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
};

/** A request that names a receiver is refused if that one would not be told: its client relies on it. */
export function createReadCallback({ metadataPrefix, hosts }: Options): ReadCallback {
  const headers = callbackHeaders(metadataPrefix);
  const names = headers.map((name) => name.toLowerCase());
  const allowed = createReceiverList(hosts);

  function fromClient(req: IncomingMessage): Target {
    const [text = "", ...more] = names.flatMap((name) => headerValues(req, name));
    const read = more.length > 0 ? { problem: "came more than once" } : readTarget(text);
    if ("problem" in read)
      throw AppError.public("request.malformed", `the header ${headers[0]} ${read.problem}`);
    if (!allowed.has(read.url)) throw refused("its host is none that may be called back from here");
    return toTarget(read.url);
  }

  return (req, own) => {
    if (names.every((name) => req.headers[name] === undefined)) return own;
    if (own !== undefined) throw refused("the calls here are told to somebody else");
    return fromClient(req);
  };
}

function refused(why: string): AppError {
  return AppError.public("callback.refused", `the request asks to be called back, but ${why}`);
}
