import type { PosternConfig } from "../config/read-postern.ts";
import { serveOps } from "../http/ops.ts";
import type { Route } from "../http/router.ts";
import { runService, type Shutdown } from "../platform/lifecycle/run-service.ts";
import type { Fields } from "../platform/log/logger.ts";
import { type Meter, metered } from "../platform/log/metered.ts";
import { createMetrics, type Metrics } from "../platform/metrics/metrics.ts";
import { delay } from "../platform/time/clock.ts";
import { registerClock } from "../redis/clock.ts";
import { registerDeployment } from "../redis/deployment.ts";
import { type DurableRedis, registerUsable } from "../redis/durable.ts";
import { RELEASE } from "../redis/layout.ts";
import type { CallsHost, ControlHost, Tables } from "./host.ts";
import type { Composed } from "./part.ts";
import { openInProcess, type ProcessOptions, type ProcessPart } from "./process.ts";

/** A part's host that is a process of its own. */
export type ProcessHost = CallsHost &
  ControlHost & {
    metrics: Metrics;
    shutdown: Shutdown;
    /** The private address, for probes and metrics. */
    opsAddress: string;
  };

type MonitoredPart<Config extends PosternConfig> = ProcessPart<Config> & {
  /** The private address, if neither an option nor `postern.toml` sets one. */
  opsAddress: string;
  createMeters(metrics: Metrics): Readonly<Record<string, Meter>>;
};

/** Runs the process of a part, and counts its events in metrics. */
export function runMonitored<Config extends PosternConfig>(
  part: MonitoredPart<Config>,
  options: ProcessOptions,
  start: (host: Tables<Config> & ProcessHost) => Promise<{ fatal: Promise<void> }>,
): Promise<number> {
  return runService(part.kind, options, async ({ log, shutdown }) => {
    const metrics = createMetrics();
    const counted = metered(log, part.createMeters(metrics));
    const host = openInProcess(part, options, { log: counted, shutdown });
    registerBuild(metrics);
    registerClock(metrics, host.redis, ...host.partitions.all.map(({ redis }) => redis));
    registerDeployment(metrics, host.deployments);
    const opsAddress = options.opsAddress ?? host.postern.ops_address ?? part.opsAddress;
    return start({ ...host, metrics, opsAddress });
  });
}

/** Shows what runs, so that a rollout is seen. */
function registerBuild(metrics: Metrics): void {
  const build = metrics.gauge("postern_build_info", "1, with the releases of Postern and Node", [
    "version",
    "node",
  ]);
  build.set({ version: RELEASE, node: process.versions.node }, 1);
}

/** Public servers of a process. `about` is what `service.started` says of them. */
type Opened = { close(graceMs: number): Promise<unknown>; about: Fields };

/** A closing server takes requests on its open connections until they have been idle for this long (listen.ts). */
const LAST_REQUEST_MS = 2000;

/**
 * Serves a part as its process: the private address at once, the public ones once the part is ready. On shutdown no request fails. The
 * drain keeps connections open. Otherwise a proxy that does not notice the drain would open a connection for each request, and closing the
 * address resets connections that the system has not handed over yet. `fatal` rejects with what `firstCheck` or `open` rejects with.
 */
export async function serveWhenReady(
  part: Omit<Composed, "stop"> & { servers: readonly DurableRedis[] },
  { postern, metrics, shutdown, log, opsAddress: privateAddress }: ProcessHost,
  open: () => Promise<Opened>,
  opsRoutes?: readonly Route[],
): Promise<{ fatal: Promise<void> }> {
  shutdown.defer("part", () => part.close());
  registerUsable(metrics, part.servers);
  const opsAddress = await serveOps(part.readiness, metrics, privateAddress, shutdown, opsRoutes);
  log.info("service.starting", { opsAddress });
  let opening: Promise<Opened> | undefined;
  let isStopping = false;
  shutdown.defer("public address", async () => {
    isStopping = true;
    part.drain?.();
    const opened = await opening?.catch(() => undefined); // `fatal` reports this failure
    if (opened === undefined) return;
    await delay(postern.drain_secs * 1000); // load balancers notice the drain meanwhile
    await opened.close(LAST_REQUEST_MS + part.graceMs);
  });

  async function serve(): Promise<void> {
    await part.firstCheck;
    if (isStopping) return;
    opening = open();
    const { about } = await opening;
    log.info("service.started", { ...about, opsAddress });
  }
  return { fatal: serve() };
}
