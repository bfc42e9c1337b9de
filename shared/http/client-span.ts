import type { Attributes } from "../platform/traces/tracer.ts";

/**
 * Names the server of a client span. Its URL is left out: path and query may hold a credential. `template` is the end of the path, without
 * what is configured before it.
 */
export function clientAttributes({ hostname, port, protocol }: URL, template?: string): Attributes {
  return {
    "server.address": hostname,
    "server.port": Number(port) || (protocol === "https:" ? 443 : 80),
    "url.template": template,
  };
}
