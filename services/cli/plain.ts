/** Text of somebody else's for a screen: on one line, and without what a terminal would obey. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]+/gu, " ");
}
