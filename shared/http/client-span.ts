import type { Attributes } from "../platform/traces/tracer.ts";

/**
 * Describes the client span of a request to the server at this URL. The span has only the host and port of the URL,
 * because its path and query may hold a credential. `template` is the pattern of the path below the configured base
 * path, such as `/jobs/{job_id}`.
 */
export function clientSpan(
  method: "GET" | "POST",
  { hostname, port, protocol }: URL,
  template?: string,
): { name: string; attributes: Attributes } {
  return {
    name: template === undefined ? method : `${method} ${template}`,
    attributes: {
      "http.request.method": method,
      "server.address": hostname,
      "server.port": Number(port) || (protocol === "https:" ? 443 : 80),
      "url.template": template,
    },
  };
}
