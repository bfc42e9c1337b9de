import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { percentDecoded } from "../../shared/platform/text/percent-decoded.ts";

/**
 * Where the page is, from the fragment of its address: `#/failed?job=0/7`. The server sees no fragment, so an address that is sent to
 * a colleague works behind any proxy, and what was searched for is in no log.
 */
export type Route = { path: readonly string[]; query: URLSearchParams };

export type Query = Readonly<Record<string, string | number | undefined>>;

export function readRoute(fragment: string): Route {
  const [path = "", query = ""] = splitAt(fragment.replace(/^#?\/?/, ""), "?");
  return { path: path.split("/").map(decoded).filter(Boolean), query: new URLSearchParams(query) };
}

/** A link within the page. A value that is undefined or empty is left out. */
export function linkTo(path: readonly string[], query: Query = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [[name, String(value)]],
  );
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** Goes to a link. With `replace` the way back leads to what was before the page that is shown. */
export function goTo(link: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", link);
  else history.pushState(null, "", link);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

const CurrentRoute = createContext<Route>({ path: [], query: new URLSearchParams() });
export const RouteProvider = CurrentRoute.Provider;
export const useRoute = (): Route => useContext(CurrentRoute);

/** The route, as it changes. */
export function useFragment(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const follow = () => setRoute(readRoute(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}

/** The query of the page that is shown, and a change of some of it, which drops what is empty. */
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

function decoded(part: string): string {
  return percentDecoded(part) ?? part;
}
