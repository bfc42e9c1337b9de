/**
 * Matches a result token (shared/call/results/token.ts), whole or cut: at least 8 characters after `rt_`, or 40 if the
 * token is inside a longer word.
 */
const TOKEN = /(?<![A-Za-z0-9])rt(?:_|%5f)[\w%-]{8,}|rt(?:_|%5f)[\w%-]{40,}/gi;

/** Removes result tokens from a text, before text of a stranger's request is logged or stored. */
export function withoutTokens(text: string): string {
  return text.replace(TOKEN, "rt_...");
}
