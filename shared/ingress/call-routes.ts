import type { IncomingMessage, ServerResponse } from "node:http";
import type { Results } from "../call/results/store.ts";
import { sendBody } from "../http/answer.ts";
import type { Route } from "../http/router.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { toAuthorizedStatus } from "./ask-result.ts";
import type { CallStreams } from "./call-streams.ts";
import { sendResult } from "./send-result.ts";

/**
 * Returns the error for a request that may not read the result of this call; undefined if it may. It reads no data of
 * the call before it has authenticated the request.
 */
export type RefusalOf = (req: IncomingMessage, callId: string) => Promise<AppError | undefined>;

/**
 * Members that a gateway adds to a call's state: `open` for every client, and `proven` only for requests that may read
 * the call's result.
 */
type OwnMembers = { open?: object | undefined; proven?: object };

export type CallRoutesDeps = {
  results: Pick<Results, "read" | "state" | "status">;
  streams: Pick<CallStreams, "open">;
  refusalOf: RefusalOf;
  /**
   * Answers a request that may not read a result. The answer is the same for every call id, so that it does not show
   * which calls exist.
   */
  demandProof: (req: IncomingMessage, res: ServerResponse, callId: string, refusal: AppError) => void;
  /**
   * Returns the members that only this gateway adds to a call's state; undefined if the call belongs to another
   * gateway.
   */
  ownMembersOf: (callId: string) => Promise<OwnMembers | undefined>;
  /** Text of the 404 answer for an unknown call. */
  unknownDetail: string;
  /** Rate-limit key of the client's address. */
  clientKeyOf: (req: IncomingMessage) => string;
};

/** Shape of `{call_id}` in the paths of `callRoutes`. */
export const CALL_ID_SHAPES = { call_id: /c_[0-9a-f]{32}/ };

/**
 * Creates GET `/{gateway}/calls/{call_id}`, and `/result` and `/events` below it. A request is authenticated first.
 * Then the route checks that the call belongs to this gateway. Both gateways may have the same secret for result
 * tokens, and a token for the other gateway's call is then valid here. Throws `request.not_found`, and an error if the
 * call cannot be read.
 */
export function callRoutes(gateway: "webhooks" | "x402", deps: CallRoutesDeps): Route[] {
  const { results, streams, refusalOf, demandProof, ownMembersOf, unknownDetail, clientKeyOf } = deps;
  const unknown = (detail = unknownDetail) => AppError.public("request.not_found", detail);

  /**
   * Returns the state of a call. Clients that are not authenticated get no details, because anyone can derive a paid
   * call's id from its payment on the chain.
   */
  async function stateOf(req: IncomingMessage, callId: string): Promise<object> {
    const isAuthenticated = (await refusalOf(req, callId)) === undefined;
    const own = await ownMembersOf(callId);
    if (own === undefined) throw unknown();
    const status = isAuthenticated ? await results.status(callId) : undefined;
    const state = status?.state ?? (await results.state(callId));
    if (state === undefined) throw unknown();
    const proven = status && { ...own.proven, ...toAuthorizedStatus(status) };
    return { call_id: callId, state: state.toLowerCase(), ...own.open, ...proven };
  }

  async function answerState(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    sendBody(res, "application/json", JSON.stringify(await stateOf(req, callId)));
  }

  async function answerResult(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const refusal = await refusalOf(req, callId);
    if (refusal !== undefined) return demandProof(req, res, callId, refusal);
    if ((await ownMembersOf(callId)) === undefined) throw unknown();
    const read = await results.read(callId);
    if (read.kind === "unknown") throw unknown();
    sendResult(req, res, read);
  }

  /**
   * Opens the call's stream. An authenticated client may open it even before the call has a record in Redis. A call
   * without a delivery id gets its record only when it ends.
   */
  async function watch(req: IncomingMessage, res: ServerResponse, callId: string): Promise<void> {
    const isAuthenticated = (await refusalOf(req, callId)) === undefined;
    // If the call belongs to the other gateway, clients get the same detail as for an unknown call. So they do not
    // learn which calls that gateway has.
    if ((await ownMembersOf(callId)) === undefined) throw unknown("no such call");
    await streams.open(req, res, {
      callId,
      isAuthenticated,
      clientKey: clientKeyOf(req),
      mayBegin: isAuthenticated,
    });
  }

  const route = (below: string, answer: typeof answerState): Route => ({
    method: "GET",
    path: `/${gateway}/calls/{call_id}${below}`,
    serve: (req, res, { call_id: callId = "" }) => answer(req, res, callId),
  });
  return [route("", answerState), route("/result", answerResult), route("/events", watch)];
}
