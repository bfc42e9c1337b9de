import { percentDecoded } from "../platform/text/percent-decoded.ts";
import { slipBetween } from "../platform/text/similar-words.ts";

/** A configured path that was probably meant, and in what the request's path differs from it. */
export type NearPath = { path: string; differs: string };

/** No path is as long, and what is longer is not compared. */
const PATH_MAX = 512;
/** Among shorter paths each is one letter from many others. */
const LETTERS_MIN = 5;

/**
 * Finds the configured path that a request's path misses by a trailing slash, case, percent-encoding, one slip of the hand, or
 * what a proxy or a host's server has left before it. One search compares the path with the configured paths of about its length,
 * so it is for sampled requests.
 */
export function createFindNear(paths: Iterable<string>): (path: string) => NearPath | undefined {
  const byForm = new Map<string, string>();
  const byLength = new Map<number, string[]>();
  for (const path of paths) {
    const form = formOf(path);
    if (byForm.has(form)) continue;
    byForm.set(form, path);
    const ofLength = byLength.get(form.length) ?? [];
    ofLength.push(form);
    byLength.set(form.length, ofLength);
  }

  return function findNear(path) {
    if (path.length > PATH_MAX) return undefined;
    const form = formOf(path);
    const same = byForm.get(form);
    if (same !== undefined)
      return same === path ? undefined : { path: same, differs: difference(path, same) };
    return form.length < LETTERS_MIN ? undefined : (oneSlipFrom(form) ?? endOf(form));
  };

  function oneSlipFrom(form: string): NearPath | undefined {
    for (const length of [form.length, form.length + 1, form.length - 1]) {
      for (const other of byLength.get(length) ?? []) {
        const slip = slipBetween(form, other);
        if (slip !== undefined) return { path: byForm.get(other) ?? other, differs: `by ${slip}` };
      }
    }
    return undefined;
  }

  function endOf(form: string): NearPath | undefined {
    for (let at = form.indexOf("/", 1); at > 0; at = form.indexOf("/", at + 1)) {
      const path = form.length - at < LETTERS_MIN ? undefined : byForm.get(form.slice(at));
      if (path !== undefined) return { path, differs: PREFIXED };
    }
    return undefined;
  }
}

/** For an operator, who may have mounted the gateway elsewhere than it believes. */
const PREFIXED = "by its prefix, which the mount path or a proxy must remove";

/** What paths have in common that only slashes, case or percent-encoding tell apart. */
function formOf(path: string): string {
  return withoutSlash(decoded(path)).toLowerCase();
}

/** Without a slash at the end, and with one where several follow each other. */
function withoutSlash(path: string): string {
  return path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
}

function decoded(path: string): string {
  return percentDecoded(path) ?? path;
}

function difference(sent: string, meant: string): string {
  const [a, b] = [withoutSlash(sent), withoutSlash(meant)];
  const differs: string[] = [];
  if (sent.includes("//") !== meant.includes("//")) differs.push("an extra slash");
  if (sent.endsWith("/") !== meant.endsWith("/")) differs.push("a trailing slash");
  if (a.toLowerCase() !== b.toLowerCase()) differs.push("percent-encoding");
  if (withoutSlash(decoded(a)) !== withoutSlash(decoded(b))) differs.push("case");
  return `by ${differs.join(" and ")}`;
}
