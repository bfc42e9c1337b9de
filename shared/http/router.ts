import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import { rawPath } from "./headers.ts";

/** A method, and a path with the names of its parameters in braces. */
type Place = {
  method: string;
  /** `{name}` is one segment, `{name+}` one or more. */
  path: string;
};

export type Found<Route> = {
  route: Route;
  /** As they stand in the path: nothing is decoded. */
  params: Readonly<Record<string, string>>;
};

export type Router<Route> = {
  /**
   * The route of a request; undefined if nothing is at its path. HEAD is answered as GET. Throws `request.method_not_allowed` for another
   * method than those of the path, and sets `Allow`.
   */
  find(req: IncomingMessage, res: ServerResponse): Found<Route> | undefined;
  /** The route's name, for log and metrics. */
  nameOf(req: IncomingMessage): string | undefined;
};

/** As `GET /api/v1/failed/{call_id}`. */
export function nameOf({ method, path }: Place): string {
  return `${method} ${path}`;
}

/**
 * Finds routes by the raw path: nothing is decoded, folded or resolved, so that no other route can be meant. A path without parameters goes
 * before one with, and of these the one with more text of its own. `others` are methods that are answered elsewhere, such as OPTIONS.
 */
export function createRouter<Route extends Place>(
  routes: readonly Route[],
  { others = [] }: { others?: readonly string[] } = {},
): Router<Route> {
  const byPath = new Map<string, Route[]>();
  for (const route of routes) byPath.set(route.path, [...(byPath.get(route.path) ?? []), route]);
  const patterns = [...byPath]
    .filter(([path]) => path.includes("{"))
    .sort(([a], [b]) => ownText(b).length - ownText(a).length)
    .map(([path, at]) => ({ at, pattern: patternOf(path) }));

  function look(path: string) {
    const fixed = path.includes("{") ? undefined : byPath.get(path);
    if (fixed !== undefined) return { at: fixed, params: {} };
    for (const { at, pattern } of patterns) {
      const match = pattern.exec(path);
      if (match !== null) return { at, params: { ...match.groups } };
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
      if (route !== undefined) return { route, params };
      const methods = at.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
      throw methodNotAllowed(req, res, [...methods, ...others]);
    },

    nameOf(req) {
      const route = own(look(rawPath(req.url ?? ""))?.at ?? [], req);
      return route && nameOf(route);
    },
  };
}

/** Refuses a method at a path that has only these. */
export function methodNotAllowed(
  { method, url }: IncomingMessage,
  res: ServerResponse,
  methods: readonly string[],
): AppError {
  const allow = methods.join(", ");
  res.setHeader("Allow", allow);
  const reason = `${method} ${rawPath(url ?? "")}`;
  return new AppError("request.method_not_allowed", { reason, publicDetail: `use ${allow}` });
}

function ownText(path: string): string {
  return path.replaceAll(/\{\w+\+?\}/g, "");
}

const SEGMENT = "[^/]{1,256}";

function patternOf(path: string): RegExp {
  const text = path
    .replaceAll(".", "\\.")
    .replaceAll(/\{(\w+)\}/g, `(?<$1>${SEGMENT})`)
    .replaceAll(/\{(\w+)\+\}/g, `(?<$1>${SEGMENT}(?:/${SEGMENT})*)`);
  return new RegExp(`^${text}$`);
}
