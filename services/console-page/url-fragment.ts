import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { percentDecoded } from "../../shared/platform/text/percent-decoded.ts";

/**
 * The open page and its filters. They are in the fragment of the URL, as in `#/failed?job=0/7`, because browsers never
 * send the fragment to a server. So a URL that an operator sends to a colleague works behind any proxy. Besides, the
 * logs of proxies do not contain the searches.
 */
export type Route = { path: readonly string[]; query: URLSearchParams };

export type Query = Readonly<Record<string, string | number | undefined>>;

export function readRoute(fragment: string): Route {
  const [path = "", query = ""] = splitAt(fragment.replace(/^#?\/?/, ""), "?");
  return { path: path.split("/").map(decodePart).filter(Boolean), query: new URLSearchParams(query) };
}

/** Makes a link to another page of the console. Leaves out query parameters that are undefined or empty. */
export function linkTo(path: readonly string[], query: Query = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [[name, String(value)]],
  );
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** Opens a link. With `replace`, the browser's history keeps no entry for the current page. */
export function goTo(link: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", link);
  else history.pushState(null, "", link);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

const CurrentRoute = createContext<Route>({ path: [], query: new URLSearchParams() });
export const RouteProvider = CurrentRoute.Provider;
export const useRoute = (): Route => useContext(CurrentRoute);

/** Returns the route in the URL, and renders the component again when it changes. */
export function useFragment(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const follow = () => setRoute(readRoute(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}

/**
 * Returns the query of the current route, and a function that changes some of its parameters. A parameter that is set
 * to an empty value is removed.
 */
export function useQuery(): [URLSearchParams, (changes: Query) => void] {
  const { path, query } = useRoute();
  const change = (changes: Query) =>
    goTo(linkTo(path, { ...Object.fromEntries(query), ...changes }), { replace: true });
  return [query, change];
}

function splitAt(text: string, separator: string): string[] {
  const at = text.indexOf(separator);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decodePart(part: string): string {
  return percentDecoded(part) ?? part;
}
