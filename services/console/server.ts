import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { CONTRACT, type OPERATIONS } from "../../shared/console/contract/contract.ts";
import {
  checkInput,
  type Handlers,
  type Operation,
  type Work,
} from "../../shared/console/contract/operation.ts";
import { markAuthenticated } from "../../shared/http/authenticated.ts";
import { readBody } from "../../shared/http/body.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { assertNotEncoded } from "../../shared/http/content-coding.ts";
import { rawPath, rawQuery } from "../../shared/http/headers.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import type { RefusalLog } from "../../shared/http/refusal-log.ts";
import { createRouter, type Found, nameOf } from "../../shared/http/router.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { ConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";
import type { EventCounter } from "../../shared/platform/log/event-counter.ts";
import { parseBoundedJson } from "../../shared/platform/text/bounded-json.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import { percentDecoded } from "../../shared/platform/text/percent-decoded.ts";
import { wellFormedJson } from "../../shared/platform/text/well-formed-json.ts";
import { unlessRedis } from "../../shared/redis/failure.ts";
import type { createAssertHost } from "./auth/hosts.ts";
import type { Identify } from "./auth/identify.ts";
import type { createAssertSameSite } from "./auth/same-site.ts";
import type { Who } from "./auth/who.ts";
import { SECURITY_HEADERS } from "./headers.ts";
import type { Context } from "./requests.ts";
import { enforcePace, type Pace, sendAnswer } from "./send.ts";
import type { ServePage } from "./serve-page.ts";

type Deps = {
  servePage: ServePage;
  assertHost: ReturnType<typeof createAssertHost>;
  assertSameSite: ReturnType<typeof createAssertSameSite>;
  identify: Identify;
  addressOf: ClientAddressOf;
  requests: Omit<ContractHandlers, keyof typeof OPERATIONS>;
  /** Returns the operations for a client name. They write this name in the audit log. */
  operationsOf: (name: string) => Handlers<typeof OPERATIONS, Work>;
  /** Throws if Redis cannot be used now. */
  assertUsable: () => void;
  /**
   * Limits on requests that read much of Redis (`lists`) and on bodies in memory (`bodies`), in total and for each
   * client name.
   */
  slots: Readonly<Record<"lists" | "bodies", ConcurrencyLimit>>;
  pace: Pace;
  answered: EventCounter;
  refusals: RefusalLog;
};

type ContractHandlers = Handlers<typeof CONTRACT, Context>;
type Route = Operation & { name: keyof typeof CONTRACT };

const NAMES = Object.keys(CONTRACT) as Route["name"][];
const ROUTES = NAMES.map((name): Route => ({ name, ...CONTRACT[name] }));

/** Limit on the size of a request's body. It is enough for a reason, a thousand ids and a filter. */
const BODY_BYTES_MAX = 128 * 1024;

/** Reason for the abort of a request whose client has disconnected. */
const CLIENT_GONE = new Error("the client has gone");

/**
 * Handles requests. For each, checks the host, finds the route, authenticates the client and checks its role. Then
 * validates the input, performs the operation and answers.
 */
export function createServer(deps: Deps): RequestListener {
  const { servePage, assertHost, addressOf } = deps;
  const router = createRouter(ROUTES);
  const admit = createAuthenticate(deps);
  const answer = createAnswer(deps);

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<string> {
    assertHost(req);
    const path = rawPath(req.url ?? "");
    const found = router.find(req, res);
    if (found === undefined) {
      if (servePage(req, res, path)) {
        enforcePace(res, deps.pace);
        return "page";
      }
      throw new AppError("request.not_found", { reason: "no such path" });
    }
    const { route } = found;
    const address = addressOf(req);
    const who = await admit(req, route, address);
    if (route.path.startsWith("/api/")) deps.assertUsable();
    await answer(found, { req, res, who, address, signal: signalUntilClosed(res) });
    return nameOf(route);
  }

  return async (req, res) => {
    res.setHeaders(new Map(SECURITY_HEADERS));
    try {
      const route = await serve(req, res);
      deps.answered.count(`${route} ${res.statusCode}`, { route, status: res.statusCode });
    } catch (thrown) {
      // A disconnected client is not a failure, and cannot get an answer.
      if (thrown === CLIENT_GONE) return;
      refuse(req, res, toAppError(unlessRedis(thrown)));
    }
  };

  function refuse(req: IncomingMessage, res: ServerResponse, error: AppError): void {
    enforcePace(res, deps.pace);
    sendProblem(req, res, error, { headers: headersOf(error) });
    // The log has the name of the route, because the path itself may contain a token by mistake.
    deps.refusals.note(error, { route: router.nameOf(req), address: addressOf(req) });
  }
}

/**
 * Creates the function that authenticates the client of a request. It throws unless the client may use the route. It
 * returns undefined if the route needs no authentication.
 */
function createAuthenticate({ identify, assertSameSite }: Pick<Deps, "identify" | "assertSameSite">) {
  return async (req: IncomingMessage, { role }: Route, address: string): Promise<Who | undefined> => {
    if (role === "anybody") {
      assertSameSite(req, { by: "nothing" });
      return undefined;
    }
    const who = await identify(req, address);
    assertSameSite(req, who);
    if (role === "operator" && who.role !== "operator")
      throw AppError.public("operator.forbidden", `${who.name} is a viewer; this needs an operator`);
    markAuthenticated(req);
    return who;
  };
}

/** Returns a signal that aborts once the client has disconnected. */
function signalUntilClosed(res: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort(CLIENT_GONE);
  if (res.destroyed) abort();
  else res.once("close", abort);
  return controller.signal;
}

/**
 * Creates the function that performs an operation and sends its answer. If the operation reads much of Redis or
 * returns a file, its request first takes a slot of a concurrency limit. `sendAnswer` releases the slot.
 */
function createAnswer({ slots, pace, requests, operationsOf }: Deps) {
  function takeSlot({ isHeavy, file }: Route, who: Who | undefined): () => void {
    return isHeavy ? slots[file === undefined ? "lists" : "bodies"].enter(who?.name) : () => {};
  }

  return async ({ route, params }: Found<Route>, context: Context): Promise<void> => {
    const { req, res, who } = context;
    const asked = {
      ...checkInput(route, "params", decodeParams(route, params)),
      ...checkInput(route, "query", queryOf(req)),
      ...(route.body && checkInput(route, "body", await jsonOf(req, res))),
    };
    const handlers = { ...requests, ...operationsOf(who?.name ?? "") };
    const handle = handlers[route.name] as (asked: object, context: Context) => Promise<unknown>;
    // Takes the slot only after the body has arrived. A slow client would otherwise occupy the slot while it sends the
    // body.
    const releaseSlot = takeSlot(route, who);
    try {
      await sendAnswer(res, route, await handle(asked, context), { pace, releaseSlot });
    } catch (error) {
      releaseSlot();
      throw error;
    }
  };
}

function headersOf({ code }: AppError): Record<string, string> {
  return code === "operator.unauthorized" ? { "WWW-Authenticate": 'Bearer realm="postern operator"' } : {};
}

/**
 * Decodes each segment of a path parameter once. Refuses an encoded slash, percent sign or control character, which a
 * second decoder or a log could read differently. A parameter of several segments may have all its slashes encoded,
 * because clients that are generated from the OpenAPI document send it so. The first of several segments must not
 * contain any encoded character.
 */
function decodeParams({ path }: Route, params: Found<Route>["params"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).map(([name, raw]) => {
      const isLong = path.includes(`{${name}+}`);
      const text = isLong && !raw.includes("/") ? raw.replaceAll(/%2F/gi, "/") : raw;
      const [first = "", ...more] = text.split("/");
      if (isLong && first.includes("%")) throw new AppError("request.not_found", { reason: "no such path" });
      return [name, [first, ...more].map((segment) => decodeSegment(name, segment)).join("/")];
    }),
  );
}

function decodeSegment(name: string, raw: string): string {
  const text = percentDecoded(raw);
  if (text !== undefined && !/[/%\p{Cc}]/u.test(text)) return text;
  const rule = 'must be percent-encoded UTF-8 without "/", "%" or control characters';
  throw AppError.public("request.malformed", `path: ${name} ${rule}`);
}

/** Reads the query. Each value is text, and no parameter may occur twice. */
function queryOf(req: IncomingMessage): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(rawQuery(req.url ?? ""))) {
    if (Object.hasOwn(query, name))
      throw AppError.public("request.malformed", `${cut(name, 64)}: must not be sent more than once`);
    query[name] = value;
  }
  return query;
}

async function jsonOf(req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  // A page of another site can send this content type only after a CORS preflight, which the console does not answer.
  if (!/^application\/json(?:\s*;|$)/i.test(req.headers["content-type"] ?? ""))
    throw AppError.public("request.media_type_unsupported", "the Content-Type must be application/json");
  assertNotEncoded(req);
  const json = parseBoundedJson(await readBody(req, res, BODY_BYTES_MAX));
  if (!json.ok) throw AppError.public("request.malformed", `body: ${json.problem}`);
  if (JSON.stringify(json.value) !== wellFormedJson(json.value))
    throw AppError.public("request.malformed", "body: must not contain half a surrogate pair");
  return json.value;
}
