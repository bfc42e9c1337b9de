import type { Shutdown } from "../lifecycle/run-service.ts";
import { delay } from "../time/clock.ts";

type Closable = { close(graceMs: number): Promise<unknown> };

/** A closing server takes requests on its open connections until they have been idle for this long (listen.ts). */
const LAST_REQUEST_MS = 2000;

type Options = {
  /** Resolves once the process can take requests; rejects if it cannot be used as it is. */
  ready: Promise<void>;
  /** Opens the public address. */
  open: () => Promise<Closable>;
  /** From now on the process is not ready, but takes requests. */
  drain: () => void;
  /** How long it goes on as before, so that load balancers notice. */
  drainMs: number;
  /** How long a request may take that came last. */
  graceMs: number;
  shutdown: Shutdown;
};

/**
 * Opens the public address of a process once it is ready, and closes it on shutdown so that no request fails. The drain keeps
 * connections open. Otherwise a proxy that does not notice the drain would open a connection for each request, and closing the address
 * resets connections that the system has not handed over yet. Rejects with what `ready` or `open` rejects with.
 */
export async function serveWhenReady(options: Options): Promise<void> {
  const { ready, open, drain, drainMs, graceMs, shutdown } = options;
  let opening: Promise<Closable> | undefined;
  let isStopping = false;
  shutdown.defer("public address", async () => {
    isStopping = true;
    drain();
    const server = await opening?.catch(() => undefined); // who waits for `open` is told
    if (server === undefined) return;
    await delay(drainMs);
    await server.close(LAST_REQUEST_MS + graceMs);
  });
  await ready;
  if (isStopping) return;
  opening = open();
  await opening;
}
