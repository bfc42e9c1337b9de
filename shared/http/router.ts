import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { withoutTokens } from "../platform/text/without-tokens.ts";
import { rawPath } from "./headers.ts";
import { sendProblem } from "./problem.ts";
import { setRoute } from "./request-duration.ts";

/** A method, and a path with the names of its parameters in braces. */
type Place = {
  method: string;
  /** `{name}` is one segment, `{name+}` one or more. */
  path: string;
  /** Follows the methods in the detail of a 405. */
  usage?: string;
};

/** As they stand in the path: nothing is decoded. */
export type Params = Readonly<Record<string, string>>;

export type Found<Route> = { route: Route; params: Params };

export type Router<Route> = {
  /**
   * The route of a request; undefined if nothing is at its path. HEAD is answered as GET. Throws `request.method_not_allowed` for another
   * method than those of the path, and sets `Allow`.
   */
  find(req: IncomingMessage, res: ServerResponse): Found<Route> | undefined;
  /** The route's name, for log and metrics. */
  nameOf(req: IncomingMessage): string | undefined;
};

/** Regular expressions of parameters, by name. */
type Shapes = Readonly<Record<string, RegExp>>;

/** As `GET /api/v1/failed/{call_id}`. */
export function nameOf({ method, path }: Place): string {
  return `${method} ${path}`;
}

/**
 * Finds routes by the raw path: nothing is decoded, folded or resolved, so that no other route can be meant. A path without parameters goes
 * before one with, and of these the one with more text of its own. A parameter with a shape is all text that fits it.
 */
export function createRouter<Route extends Place>(
  routes: readonly Route[],
  { shapes = {} }: { shapes?: Shapes } = {},
): Router<Route> {
  const byPath = new Map<string, Route[]>();
  for (const route of routes) byPath.set(route.path, [...(byPath.get(route.path) ?? []), route]);
  const fixed = new Map([...byPath].filter(([path]) => !path.includes("{")));
  const patterns = [...byPath]
    .filter(([path]) => !fixed.has(path))
    .sort(([a], [b]) => ownText(b).length - ownText(a).length)
    .map(([path, at]) => ({
      at,
      end: path.slice(path.lastIndexOf("}") + 1),
      pattern: patternOf(path, shapes),
    }));

  function look(path: string): { at: Route[]; params: Params } | undefined {
    const exact = fixed.get(path);
    if (exact !== undefined) return { at: exact, params: {} };
    for (const { at, end, pattern } of patterns) {
      const match = path.endsWith(end) ? pattern.exec(path) : null;
      if (match !== null) return { at, params: match.groups ?? {} };
    }
    return undefined;
  }

  function own(at: readonly Route[], { method }: IncomingMessage): Route | undefined {
    return at.find((route) => route.method === (method === "HEAD" ? "GET" : method));
  }

  return {
    find(req, res) {
      const looked = look(rawPath(req.url ?? ""));
      if (looked === undefined) return undefined;
      const { at, params } = looked;
      const route = own(at, req);
      if (route !== undefined) {
        setRoute(req, route.path);
        return { route, params };
      }
      const methods = at.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
      throw methodNotAllowed(req, res, methods, at[0]?.usage);
    },

    nameOf(req) {
      const route = own(look(rawPath(req.url ?? ""))?.at ?? [], req);
      return route && nameOf(route);
    },
  };
}

/** A place, and what answers there. Its errors are answered with problem documents. */
export type Route = Place & {
  serve(req: IncomingMessage, res: ServerResponse, params: Params): void | Promise<void>;
};

/** Serves these routes. `otherwise` answers the requests to other paths. */
export function serveRoutes(
  routes: readonly Route[],
  { shapes, otherwise = refuseUnknown }: { shapes?: Shapes; otherwise?: RequestListener } = {},
): RequestListener {
  const router = createRouter(routes, shapes && { shapes });
  return async (req, res) => {
    try {
      const found = router.find(req, res);
      if (found === undefined) return otherwise(req, res);
      await found.route.serve(req, res, found.params);
    } catch (thrown) {
      sendProblem(req, res, toAppError(thrown));
    }
  };
}

function refuseUnknown(req: IncomingMessage): never {
  throw nothingAt(req);
}

export function nothingAt({ url = "" }: IncomingMessage): AppError {
  return new AppError("request.not_found", { reason: `no such path: ${withoutTokens(rawPath(url))}` });
}

/** Throws `request.not_found` for a target with a query, at a route that has none. */
export function assertNoQuery(req: IncomingMessage): void {
  if (req.url?.includes("?")) throw nothingAt(req);
}

/** Refuses a method at a path that has only these. */
export function methodNotAllowed(
  { method = "" }: IncomingMessage,
  res: ServerResponse,
  methods: readonly string[],
  usage?: string,
): AppError {
  res.setHeader("Allow", methods.join(", "));
  const others = methods.filter((each) => ![method, "HEAD", "OPTIONS"].includes(each)).join(" or ");
  const publicDetail = `use ${others}${usage === undefined ? "" : `: ${usage}`}`;
  return new AppError("request.method_not_allowed", {
    reason: `${method}; this path accepts ${others}`,
    publicDetail,
  });
}

function ownText(path: string): string {
  return path.replaceAll(/\{\w+\+?\}/g, "");
}

const SEGMENT = "[^/]{1,256}";

function patternOf(path: string, shapes: Shapes): RegExp {
  const text = path
    .replaceAll(".", "\\.")
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => `(?<${name}>${shapes[name]?.source ?? SEGMENT})`)
    .replaceAll(/\{(\w+)\+\}/g, `(?<$1>${SEGMENT}(?:/${SEGMENT})*)`);
  return new RegExp(`^${text}$`);
}
