import type { ServerResponse } from "node:http";

/*
 * What pages of any origin may ask (Fetch standard, CORS protocol). Credentials are never allowed: no cookie means anything here,
 * and a page sets the header of a payment or a quote itself.
 */

/** The headers of every answer, refusals too; `exposed` are those of an answer that a page may read. */
export function corsHeaders(exposed: readonly string[]) {
  return { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": exposed.join(", ") } as const;
}

type Allowed = { methods: readonly string[]; headers: readonly string[] };

/** Answers a browser's preflight, whose answer has the headers of `corsHeaders` already. */
export function createPreflight({ methods, headers }: Allowed): (res: ServerResponse) => void {
  const allowed = {
    "Access-Control-Allow-Methods": methods.join(", "),
    "Access-Control-Allow-Headers": headers.join(", "),
    "Access-Control-Max-Age": "600",
  };
  return (res) => {
    res.writeHead(204, allowed);
    res.end();
  };
}
