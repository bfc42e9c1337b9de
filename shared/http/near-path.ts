/** A configured path that was probably meant, and in what the request's path differs from it. */
export type NearPath = { path: string; differs: string };

/** No path is as long, and what is longer is not compared. */
const PATH_MAX = 512;
/** Among shorter paths each is one letter from many others. */
const LETTERS_MIN = 5;

/**
 * Finds the configured path that a request's path misses by a slash at the end, case, percent-encoding or one letter. One
 * search compares the path with the configured paths of about its length, so it is for sampled requests.
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
    if (form.length < LETTERS_MIN) return undefined;
    for (const length of [form.length, form.length + 1, form.length - 1]) {
      const near = byLength.get(length)?.find((other) => isOneLetterFrom(form, other));
      if (near !== undefined) return { path: byForm.get(near) ?? near, differs: "by one letter" };
    }
    return undefined;
  };
}

/** What paths have in common that only a slash at the end, case or percent-encoding tells apart. */
function formOf(path: string): string {
  return withoutSlash(decoded(path)).toLowerCase();
}

function withoutSlash(path: string): string {
  return path.replace(/(?<=.)\/$/, "");
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function difference(sent: string, meant: string): string {
  const [a, b] = [withoutSlash(sent), withoutSlash(meant)];
  const differs: string[] = [];
  if (sent.endsWith("/") !== meant.endsWith("/")) differs.push("a slash at the end");
  if (a.toLowerCase() !== b.toLowerCase()) differs.push("percent-encoding");
  if (withoutSlash(decoded(a)) !== withoutSlash(decoded(b))) differs.push("case");
  return `by ${differs.join(" and ")}`;
}

/** Whether one letter added, left out or replaced makes `a` of `b`: all letters before and after it are the same. */
function isOneLetterFrom(a: string, b: string): boolean {
  const most = Math.max(a.length, b.length);
  const least = Math.min(a.length, b.length);
  let before = 0;
  while (before < least && a[before] === b[before]) before += 1;
  let after = 0;
  while (after < least - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after += 1;
  return before + after >= most - 1;
}
