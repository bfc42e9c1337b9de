import type { ServerResponse } from "node:http";

/*
 * Methods and headers that pages of any origin may use (Fetch standard, CORS protocol). Credentials are never allowed:
 * the gateways use no cookies, and a page sets the headers of a payment or quote itself.
 */

/** Returns the CORS headers of every answer, including refusals. `exposed` names the headers that a page may read. */
export function corsHeaders(exposed: readonly string[]) {
  return { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": exposed.join(", ") } as const;
}

type Allowed = { methods: readonly string[]; headers: readonly string[] };

/**
 * Creates the function that answers a preflight: the OPTIONS request with which a browser asks whether a page may send
 * its request. The caller must have set the headers of `corsHeaders` on the answer.
 */
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
