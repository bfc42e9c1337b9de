import type { IncomingMessage } from "node:http";
import { isIPv4, isIPv6 } from "node:net";
import { AppError } from "../../../shared/platform/errors/app-error.ts";

type Options = { allowedHosts: readonly string[]; publicUrl: string | undefined; bindHost: string };

/**
 * Throws `operator.host_unknown` unless the request was sent to an IP address, to localhost, or to a name of this
 * service. An attacker's page may make its own name resolve to this machine (DNS rebinding). The browser then treats
 * the page's requests as same-origin, but their Host is the attacker's name. Such an attack needs a name, so a request
 * to an IP address is safe.
 */
export function createAssertHost({ allowedHosts, publicUrl, bindHost }: Options) {
  const own = [...allowedHosts, bindHost, ...(publicUrl === undefined ? [] : [new URL(publicUrl).hostname])];
  const names = new Set(["localhost", ...own].map((name) => name.toLowerCase()));

  return function assertHost({ headers: { host = "" } }: Pick<IncomingMessage, "headers">): void {
    const [, name = "", inBrackets] = /^((?:\[([^\]]*)\])|[^:[\]]*)(?::\d{1,5})?$/.exec(host) ?? [];
    if (inBrackets !== undefined ? isIPv6(inBrackets) : isIPv4(name)) return;
    if (names.has(name.toLowerCase().replace(/\.$/, ""))) return;
    const detail = `unknown host ${JSON.stringify(host.slice(0, 100))}: add the name to allowed_hosts in operator.toml, or set public_url`;
    throw AppError.public("operator.host_unknown", detail);
  };
}
