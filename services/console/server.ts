import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { z } from "zod";
import { firstProblem, messageForJson } from "../../shared/config/problem.ts";
import type { OperatorApi } from "../../shared/console/api.ts";
import type { Overview } from "../../shared/console/overview/overview.ts";
import { readBody } from "../../shared/http/body.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { assertNotEncoded } from "../../shared/http/content-coding.ts";
import { rawPath, rawQuery } from "../../shared/http/headers.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import { markProven } from "../../shared/http/proof.ts";
import type { RefusalLog } from "../../shared/http/refusal-log.ts";
import { type Found as FoundRoute, nameOf, type Router } from "../../shared/http/router.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { ConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";
import type { EventCounter } from "../../shared/platform/log/event-counter.ts";
import { parseBoundedJson } from "../../shared/platform/text/bounded-json.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import { percentDecoded } from "../../shared/platform/text/percent-decoded.ts";
import { wellFormedJson } from "../../shared/platform/text/well-formed-json.ts";
import { unlessRedis } from "../../shared/redis/failure.ts";
import type { createAssertHost } from "./auth/hosts.ts";
import type { CheckToken, Identify } from "./auth/identify.ts";
import type { createAssertSameSite } from "./auth/same-site.ts";
import type { Sessions } from "./auth/sessions.ts";
import type { Who } from "./auth/who.ts";
import { SECURITY_HEADERS } from "./headers.ts";
import type { Live } from "./live.ts";
import type { ServePage } from "./page.ts";
import type { Context, Route } from "./route.ts";
import { keepToPace, type Pace, sendAnswer } from "./send.ts";

type Deps = {
  router: Router<Route>;
  servePage: ServePage;
  assertHost: ReturnType<typeof createAssertHost>;
  assertSameSite: ReturnType<typeof createAssertSameSite>;
  identify: Identify;
  checkToken: CheckToken;
  sessions: Sessions;
  addressOf: ClientAddressOf;
  /** What an operator of this name sees and does. */
  apiOf: (name: string) => OperatorApi;
  overview: Overview;
  live: Live;
  /** Throws if nothing can be asked of Redis now. */
  assertUsable: () => void;
  /** Limits on long readings of Redis and on bodies in memory. The client's name is the party. */
  places: Readonly<Record<"lists" | "bodies", ConcurrencyLimit>>;
  pace: Pace;
  answered: EventCounter;
  refusals: RefusalLog;
  audit: Context["audit"];
};

type Found = FoundRoute<Route>;

/** A reason, a thousand ids and a filter. */
const BODY_BYTES_MAX = 128 * 1024;

/** Why an answer was given up. */
const NOBODY_WAITS = new Error("the client has gone");

/** One request, top to bottom: whose host, which route, who asks and whether he may, what he asks, the answer. */
export function createServer(deps: Deps): RequestListener {
  const { router, servePage, assertHost, addressOf } = deps;
  const admit = createAdmit(deps);
  const answer = createAnswer(deps);

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<string> {
    assertHost(req);
    const path = rawPath(req.url ?? "");
    const found = router.find(req, res);
    if (found === undefined) {
      if (servePage(req, res, path)) {
        keepToPace(res, deps.pace);
        return "page";
      }
      throw new AppError("request.not_found", { reason: "no such path" });
    }
    const { route } = found;
    const address = addressOf(req);
    const who = await admit(req, route, address);
    if (route.path.startsWith("/api/")) deps.assertUsable();
    await answer(found, contextOf(req, res, who, address), res);
    return nameOf(route);
  }

  function contextOf(
    req: IncomingMessage,
    res: ServerResponse,
    who: Who | undefined,
    address: string,
  ): Context {
    const { apiOf, overview, live, sessions, checkToken, audit } = deps;
    const left = new AbortController();
    const abort = () => left.abort(NOBODY_WAITS);
    if (res.destroyed) abort();
    else res.once("close", abort);
    return {
      api: apiOf(who?.name ?? ""),
      overview,
      live,
      who,
      address,
      req,
      signal: left.signal,
      sessions,
      checkToken,
      audit,
    };
  }

  return async (req, res) => {
    res.setHeaders(new Map(SECURITY_HEADERS));
    try {
      const route = await serve(req, res);
      deps.answered.count(`${route} ${res.statusCode}`, { route, status: res.statusCode });
    } catch (thrown) {
      // It is no failure, and there is nobody to tell.
      if (thrown === NOBODY_WAITS) return;
      refuse(req, res, toAppError(unlessRedis(thrown)));
    }
  };

  function refuse(req: IncomingMessage, res: ServerResponse, error: AppError): void {
    keepToPace(res, deps.pace);
    sendProblem(req, res, error, { headers: headersOf(error) });
    // Not the path itself: somebody may have put a token there.
    deps.refusals.note(error, { route: router.nameOf(req), address: addressOf(req) });
  }
}

/** Throws unless this route may be asked by whoever asks. Undefined if anybody may. */
function createAdmit({ identify, assertSameSite }: Pick<Deps, "identify" | "assertSameSite">) {
  return async (req: IncomingMessage, { access }: Route, address: string): Promise<Who | undefined> => {
    if (access === "anybody") {
      assertSameSite(req, { by: "nothing" });
      return undefined;
    }
    const who = await identify(req, address);
    assertSameSite(req, who);
    if (access === "operator" && who.role !== "operator")
      throw AppError.public("operator.forbidden", `${who.name} is a viewer; this needs an operator`);
    markProven(req);
    return who;
  };
}

/** Asks a route and sends its answer. A long reading or a body holds a place until that is done. */
function createAnswer({ places, pace }: Pick<Deps, "places" | "pace">) {
  function enter({ isHeavy, answers }: Route, who: Who | undefined): () => void {
    if (!isHeavy) return () => {};
    return places[answers[200]?.contentType === undefined ? "lists" : "bodies"].enter(who?.name);
  }

  return async ({ route, params }: Found, context: Context, res: ServerResponse): Promise<void> => {
    const { req, who } = context;
    const asked = {
      params: parsed(route.params, decoded(params), "path"),
      query: parsed(route.query, queryOf(req), "query"),
      body: route.body && parsed(route.body, await jsonOf(req, res), "body"),
    };
    // Not before the body is there: it may come slowly.
    const leave = enter(route, who);
    try {
      sendAnswer(res, await route.answer(asked, context), { pace, leave });
    } catch (error) {
      leave();
      throw error;
    }
  };
}

function headersOf({ code }: AppError): Record<string, string> {
  return code === "operator.unauthorized" ? { "WWW-Authenticate": 'Bearer realm="postern operator"' } : {};
}

/** Throws `request.malformed`, or `request.not_found` for a path that names nothing. */
function parsed(schema: z.ZodType | undefined, value: unknown, what: "path" | "query" | "body"): unknown {
  if (schema === undefined) {
    if (what !== "query" || Object.keys(value as object).length === 0) return undefined;
    throw AppError.public("request.malformed", "this route has no query parameters");
  }
  const result = schema.safeParse(value, { error: messageForJson });
  if (result.success) return result.data;
  const detail = firstProblem(result.error, what);
  throw AppError.public(what === "path" ? "request.not_found" : "request.malformed", detail);
}

/**
 * Decodes each parameter of a path once. What a second decoding, another split at slashes or a log would read as something else is
 * refused.
 */
function decoded(params: Found["params"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).map(([name, raw]) => {
      const text = percentDecoded(raw);
      if (text !== undefined && !/[/%\p{Cc}]/u.test(text)) return [name, text];
      const rule = 'must be percent-encoded UTF-8 without "/", "%" or control characters';
      throw AppError.public("request.malformed", `path: ${name} ${rule}`);
    }),
  );
}

/** Each parameter once, as text. */
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
  // A form of another site cannot send this type without asking first, and is not answered then.
  if (!/^application\/json(?:\s*;|$)/i.test(req.headers["content-type"] ?? ""))
    throw AppError.public("request.media_type_unsupported", "the Content-Type must be application/json");
  assertNotEncoded(req);
  const json = parseBoundedJson(await readBody(req, res, BODY_BYTES_MAX));
  if (!json.ok) throw AppError.public("request.malformed", `body: ${json.problem}`);
  if (JSON.stringify(json.value) !== wellFormedJson(json.value))
    throw AppError.public("request.malformed", "body: must not contain half a surrogate pair");
  return json.value;
}
