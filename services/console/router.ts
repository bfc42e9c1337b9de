import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Route } from "./route.ts";

type Found = { route: Route; params: Readonly<Record<string, string>> };

export type Router = {
  /** Undefined if nothing is at this path. Throws `request.method_not_allowed`, whose detail names the methods that are. */
  find(method: string, path: string): Found | undefined;
  /** The methods of the routes at a path, for Allow. */
  methodsAt(path: string): string[];
  /** The name of the route, for log and metrics. Undefined if there is none. */
  nameOf(method: string, path: string): string | undefined;
};

/** As `GET /api/v1/failed/{call_id}`. */
export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}

type Matcher = { route: Route; pattern: RegExp };

/**
 * Finds routes by the raw path: nothing is decoded, folded or resolved, so that no other route can be meant. The server decodes the
 * parameters. A path without parameters goes before one with.
 */
export function createRouter(routes: readonly Route[]): Router {
  const isFixed = ({ path }: Route) => !path.includes("{");
  const ordered = [...routes.filter(isFixed), ...routes.filter((each) => !isFixed(each))];
  const matchers: Matcher[] = ordered.map((route) => ({ route, pattern: patternOf(route.path) }));

  function at(path: string): Matcher[] {
    const found = matchers.filter(({ pattern }) => pattern.test(path));
    const [first] = found;
    return first === undefined ? [] : found.filter(({ route }) => route.path === first.route.path);
  }

  const methodsAt = (path: string): string[] =>
    at(path).flatMap(({ route: { method } }) => (method === "GET" ? ["GET", "HEAD"] : [method]));

  function own(method: string, path: string): Matcher | undefined {
    const wanted = method === "HEAD" ? "GET" : method;
    return at(path).find(({ route }) => route.method === wanted);
  }

  return {
    methodsAt,

    nameOf(method, path) {
      const found = own(method, path);
      return found && nameOf(found.route);
    },

    find(method, path) {
      const found = own(method, path);
      if (found !== undefined) return { route: found.route, params: { ...found.pattern.exec(path)?.groups } };
      if (at(path).length === 0) return undefined;
      const publicDetail = `use ${methodsAt(path).join(", ")}`;
      throw new AppError("request.method_not_allowed", { reason: `${method} ${path}`, publicDetail });
    },
  };
}

function patternOf(path: string): RegExp {
  const parts = path.split(/\{(\w+)\}/);
  const text = parts.map((part, i) =>
    i % 2 === 0 ? part.replaceAll(".", "\\.") : `(?<${part}>[^/]{1,256})`,
  );
  return new RegExp(`^${text.join("")}$`);
}
