import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { withoutTokens } from "../platform/text/without-tokens.ts";
import { rawPath } from "./headers.ts";
import { sendProblem } from "./problem.ts";
import { setRoute } from "./request-duration.ts";

/** Method and path of a route. The path has its parameters' names in braces. */
type RouteKey = {
  method: string;
  /** `{name}` matches one segment, `{name+}` one or more. */
  path: string;
  /** Text in the detail of a 405 (method not allowed), after the methods that the path accepts. */
  usage?: string;
};

/** Raw values of the path's parameters: nothing is decoded. */
export type Params = Readonly<Record<string, string>>;

export type Found<Route> = { route: Route; params: Params };

export type Router<Route> = {
  /**
   * Finds the route of a request; undefined if no route has its path. A GET route also answers HEAD. Throws
   * `request.method_not_allowed` for a method that the path does not accept, and sets `Allow`.
   */
  find(req: IncomingMessage, res: ServerResponse): Found<Route> | undefined;
  /** Returns the route's name for log and metrics. */
  nameOf(req: IncomingMessage): string | undefined;
};

/** Regular expressions that the values of parameters must match, by the parameter's name. */
type Shapes = Readonly<Record<string, RegExp>>;

/** Returns a name such as `GET /api/v1/failed/{call_id}`. */
export function nameOf({ method, path }: RouteKey): string {
  return `${method} ${path}`;
}

/**
 * Creates a router that matches raw paths: nothing is decoded, folded or resolved, so that a path means exactly one
 * route. If several routes match a path, one without parameters wins, then the one with the most literal text. A
 * parameter with a shape matches all text of that shape.
 */
export function createRouter<Route extends RouteKey>(
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

  function lookUp(path: string): { at: Route[]; params: Params } | undefined {
    const exact = fixed.get(path);
    if (exact !== undefined) return { at: exact, params: {} };
    for (const { at, end, pattern } of patterns) {
      const match = path.endsWith(end) ? pattern.exec(path) : null;
      if (match !== null) return { at, params: match.groups ?? {} };
    }
    return undefined;
  }

  function routeFor(at: readonly Route[], { method }: IncomingMessage): Route | undefined {
    return at.find((route) => route.method === (method === "HEAD" ? "GET" : method));
  }

  return {
    find(req, res) {
      const looked = lookUp(rawPath(req.url ?? ""));
      if (looked === undefined) return undefined;
      const { at, params } = looked;
      const route = routeFor(at, req);
      if (route !== undefined) {
        setRoute(req, route.path);
        return { route, params };
      }
      const methods = at.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
      throw methodNotAllowed(req, res, methods, at[0]?.usage);
    },

    nameOf(req) {
      const route = routeFor(lookUp(rawPath(req.url ?? ""))?.at ?? [], req);
      return route && nameOf(route);
    },
  };
}

/** A route with its handler. Errors of the handler are answered with problem documents. */
export type Route = RouteKey & {
  serve(req: IncomingMessage, res: ServerResponse, params: Params): void | Promise<void>;
};

/** Serves these routes. `otherwise` answers requests to other paths. */
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

/** Throws `request.not_found` if the target has a query. Routes that accept no query call it. */
export function assertNoQuery(req: IncomingMessage): void {
  if (req.url?.includes("?")) throw nothingAt(req);
}

/** Creates the refusal of a method, and sets `Allow` to the path's methods. */
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
