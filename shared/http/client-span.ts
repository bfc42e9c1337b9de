import type { Attributes } from "../platform/traces/tracer.ts";

/**
 * Describes the client span of a request to this server. Its URL is left out: path and query may hold a credential. `template` is the end of
 * the path, without what is configured before it.
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
