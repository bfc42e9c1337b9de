import { percentDecoded } from "../platform/text/percent-decoded.ts";
import { typoBetween } from "../platform/text/similar-words.ts";

/** A configured path that the client of a request to an unknown path probably meant, and how the two paths differ. */
export type NearPath = { path: string; differs: string };

/** Limit on the length of compared paths. Configured paths are shorter. */
const PATH_MAX = 512;
/** Least length of compared paths. A shorter path often differs from an unrelated one by only one letter. */
const LETTERS_MIN = 5;

/**
 * Creates the function that finds the configured path that a request probably meant. The request's path may differ by a
 * trailing slash, case, percent-encoding, one typing error, or a prefix that a proxy or the host's server should have
 * removed. Each search compares many configured paths of similar length. So call it only for a sample of the refused
 * requests, not for each one.
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
        const slip = typoBetween(form, other);
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

/** Advice for an operator: requests may arrive with a prefix before the configured path. */
const PREFIXED = "by its prefix, which the mount path or a proxy must remove";

/** Returns the form that paths share if they differ only in slashes, case or percent-encoding. */
function formOf(path: string): string {
  return withoutSlash(decoded(path)).toLowerCase();
}

/** Removes the slash at the end, and merges consecutive slashes. */
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
