import type { Table } from "../../shared/config/config-tables.ts";
import { isLoopback } from "../../shared/config/fields.ts";
import { fetch } from "../../shared/http/fetch.ts";

/** Port of the reference runner if the operator's files name none. */
const USUAL_PORT = 8645;

/**
 * Returns the URL of the operator's own runner: that of --runner, or `[runner] url` if the reference runner does not
 * listen there. Returns undefined if `postern dev` must start the reference runner.
 */
export function ownRunnerUrl(flag: URL | undefined, runner: Table): string | undefined {
  if (flag !== undefined) return flag.href.replace(/\/$/, "");
  const { url, bind_address: address } = runner as { url?: string; bind_address?: string };
  if (url === undefined || leadsTo(url, address ?? `127.0.0.1:${USUAL_PORT}`)) return undefined;
  return url;
}

/** Whether a server at this `host:port` receives requests to the URL. */
function leadsTo(url: string, address: string): boolean {
  const [{ protocol, hostname, port, pathname }, bound] = [new URL(url), new URL(`http://${address}`)];
  if (protocol !== "http:" || pathname !== "/" || port !== bound.port) return false;
  const boundHere = isLoopback(bound.href) || ["0.0.0.0", "[::]"].includes(bound.hostname);
  return hostname === bound.hostname || (isLoopback(url) && boundHere);
}

const PROBE_MS = 2000;

/** Whether a server answers at the runner's URL, with any status, because a runner need not have a probe. */
export async function isThere(url: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PROBE_MS);
    (await fetch(`${url}/livez`, { redirect: "manual", signal })).body.destroy();
    return true;
  } catch {
    return false;
  }
}
