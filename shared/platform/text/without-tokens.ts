/** The token of a result (shared/call/results/token.ts), or a good part of one as a word of its own. */
const TOKEN = /(?<![A-Za-z0-9])rt(?:_|%5f)[\w%-]{8,}|rt(?:_|%5f)[\w%-]{40,}/gi;

/** The text without the tokens in it, for what is logged or kept of a stranger's request. */
export function withoutTokens(text: string): string {
  return text.replace(TOKEN, "rt_...");
}
