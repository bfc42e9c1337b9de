/** Returns the beginning of a text, at most `max` UTF-16 units long. It never splits a surrogate pair. */
export function cut(text: string, max: number): string {
  const short = text.slice(0, max);
  return short.length < text.length && /[\uD800-\uDBFF]$/.test(short) ? short.slice(0, -1) : short;
}
