import type { Table } from "../../shared/config/config-tables.ts";
import { isLoopback } from "../../shared/config/fields.ts";
import { fetch } from "../../shared/http/fetch.ts";

/** Port of the reference runner if the operator's files name none. */
const USUAL_PORT = 8645;

/**
 * Returns the URL of the operator's own runner. It is the argument of --runner, or `[runner] url` in postern.toml. If
 * that url leads to the address of the reference runner, the operator has no own runner. Then, or if there is no url,
 * returns undefined, and `postern dev` starts the reference runner.
 */
export function ownRunnerUrl(flag: URL | undefined, runner: Table): string | undefined {
  if (flag !== undefined) return flag.href.replace(/\/$/, "");
  const { url, bind_address: address } = runner as { url?: string; bind_address?: string };
  if (url === undefined || leadsTo(url, address ?? `127.0.0.1:${USUAL_PORT}`)) return undefined;
  return url;
}

/** Returns whether a server that listens on `address` (`host:port`) would receive requests to the URL. */
function leadsTo(url: string, address: string): boolean {
  const [{ protocol, hostname, port, pathname }, bound] = [new URL(url), new URL(`http://${address}`)];
  if (protocol !== "http:" || pathname !== "/" || port !== bound.port) return false;
  const boundHere = isLoopback(bound.href) || ["0.0.0.0", "[::]"].includes(bound.hostname);
  return hostname === bound.hostname || (isLoopback(url) && boundHere);
}

const PROBE_MS = 2000;

/**
 * Returns whether a server answers at the runner's URL. Any status counts, even 404, because an operator's runner need
 * not have the path /livez.
 */
export async function isThere(url: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PROBE_MS);
    (await fetch(`${url}/livez`, { redirect: "manual", signal })).body.destroy();
    return true;
  } catch {
    return false;
  }
}
