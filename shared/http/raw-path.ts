/** The path of a request target as it came, without its query: nothing is decoded, folded or resolved. */
export function rawPath(target: string): string {
  const query = target.indexOf("?");
  return query === -1 ? target : target.slice(0, query);
}
