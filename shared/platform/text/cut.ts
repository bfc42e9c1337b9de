/** The beginning of a text, at most `max` UTF-16 units long. A character that has two units is never cut in half. */
export function cut(text: string, max: number): string {
  const short = text.slice(0, max);
  return short.length < text.length && /[\uD800-\uDBFF]$/.test(short) ? short.slice(0, -1) : short;
}
