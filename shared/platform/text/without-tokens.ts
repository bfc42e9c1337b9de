/**
 * Matches a result token (shared/call/results/token.ts), even if its end is missing. At the start of a word, 8
 * characters after `rt_` are enough. Inside a longer word, where `rt_` may be a coincidence, there must be 40.
 */
const TOKEN = /(?<![A-Za-z0-9])rt(?:_|%5f)[\w%-]{8,}|rt(?:_|%5f)[\w%-]{40,}/gi;

/**
 * Removes result tokens from a text. Call it before a text from a request is logged or stored: with a token, a reader
 * of the log could read the result.
 */
export function withoutTokens(text: string): string {
  return text.replace(TOKEN, "rt_...");
}
