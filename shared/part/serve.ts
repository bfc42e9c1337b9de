import type { PosternConfig } from "../config/read-postern.ts";
import { serveOps } from "../http/ops.ts";
import { runService, type Shutdown } from "../platform/lifecycle/run-service.ts";
import type { Fields } from "../platform/log/logger.ts";
import { type Meter, metered } from "../platform/log/metered.ts";
import { createMetrics, type Metrics } from "../platform/metrics/metrics.ts";
import { delay } from "../platform/time/clock.ts";
import { openTraces } from "../platform/traces/open-traces.ts";
import { registerClock } from "../redis/clock.ts";
import type { Redis } from "../redis/connect.ts";
import { registerDeployment } from "../redis/deployment.ts";
import { type DurableRedis, registerUsable } from "../redis/durable.ts";
import { RELEASE } from "../redis/layout.ts";
import { Generations } from "./generations.ts";
import type { CallsHost, ControlHost, Tables } from "./host.ts";
import type { Composed } from "./part.ts";
import { openInProcess, type ProcessOptions, type ProcessPart, readFiles } from "./process.ts";
import { createReload } from "./reload.ts";

/** Inputs of a part while it is composed for a process of its own. */
export type ComposingHost = CallsHost & ControlHost & { redis: Redis; shutdown: Shutdown };

/** Inputs of a part that runs in a process of its own. */
export type ProcessHost = ComposingHost & {
  metrics: Metrics;
  /** Private address for probes and metrics. */
  opsAddress: string;
  /** Returns which configuration is in force, for `/readyz`. */
  aboutConfig: () => Fields;
};

type MonitoredPart<Config extends PosternConfig> = ProcessPart<Config> & {
  /** Private address, if neither an option nor `postern.toml` sets one. */
  opsAddress: string;
  createMeters(metrics: Metrics): Readonly<Record<string, Meter>>;
};

/** A composed part. `servers` has the Redis of each partition that the part uses. */
type Monitored = Omit<Composed, "stop"> & { servers: readonly DurableRedis[] };

type Started = { fatal: Promise<void> };

/**
 * Runs the process of a part, and counts its log events as metrics. The configuration is reloaded after SIGHUP, after `postern
 * reload` and, with `--watch`, after a change of its files. For a new configuration, the part is composed again, as a new
 * generation.
 */
export function runMonitored<Config extends PosternConfig, One extends Monitored>(
  part: MonitoredPart<Config>,
  options: ProcessOptions,
  compose: (host: Tables<Config> & ComposingHost, last?: One) => One,
  serve: (generations: Generations<One>, host: Tables<Config> & ProcessHost) => Promise<Started>,
): Promise<number> {
  return runService(part.kind, options, async ({ log, shutdown, onHangup }) => {
    const metrics = createMetrics();
    const counted = metered(log, part.createMeters(metrics));
    const service = `postern-${part.kind}`;
    const closeTraces = await openTraces({ env: options.env, service, release: RELEASE, log: counted });
    if (closeTraces !== undefined) shutdown.defer("traces", closeTraces);
    const { config, host } = openInProcess(part, options, { log: counted, shutdown });
    registerBuild(metrics);
    registerClock(metrics, host.redis, ...host.partitions.all.map(({ redis }) => redis));
    registerDeployment(metrics, host.deployments);
    const opsAddress = options.opsAddress ?? host.postern.ops_address ?? part.opsAddress;
    const generations = new Generations(compose(host));
    registerUsable(metrics, () => generations.current.servers);
    shutdown.defer("part", () => generations.close());
    const reload = createReload({
      config,
      read: () => readFiles(part, options),
      follow: (next) =>
        generations.follow(compose({ ...host, ...(next as Tables<Config>) }, generations.current)),
      reports: host.reports,
      metrics,
      log: counted,
    });
    const whenStarted = (work: () => Promise<void>) => generations.firstCheck.then(work, () => {});
    onHangup(() => void whenStarted(() => reload.now("SIGHUP")));
    host.reports.onReloadAsked(() => whenStarted(() => reload.now("postern reload")));
    const look = () => whenStarted(() => reload.ifChanged("--watch"));
    if (options.watch) shutdown.defer("watch", every(WATCH_MS, look));
    return serve(generations, { ...host, metrics, opsAddress, aboutConfig: reload.about });
  });
}

/**
 * Interval at which the files are read, to find changes. Notifications of the file system are not used, because they miss some
 * replacements: Kubernetes replaces a symbolic link two folders above the file.
 */
const WATCH_MS = 5000;

function every(ms: number, work: () => Promise<void>): () => void {
  const timer = setInterval(() => void work(), ms);
  timer.unref();
  return () => clearInterval(timer);
}

/** Registers a metric with the releases of Postern and Node, so that a rollout is visible. */
function registerBuild(metrics: Metrics): void {
  const build = metrics.gauge("postern_build_info", "1, with the releases of Postern and Node", [
    "version",
    "node",
  ]);
  build.set({ version: RELEASE, node: process.versions.node }, 1);
}

/** Public servers of a process. `about` has the fields about them in the event `service.started`. */
type Opened = { close(graceMs: number): Promise<unknown>; about: Fields };

/**
 * Time after which a closing server (listen.ts) closes an open connection that has been idle. Until then, it still accepts
 * requests on it.
 */
const LAST_REQUEST_MS = 2000;

/**
 * Serves a part as a process. The private address is served at once, the public ones once the part is ready. `fatal` rejects with
 * the error of `firstCheck` or `open`.
 * On shutdown, no request fails. During the drain, the public address and its connections stay open. If the connections were
 * closed, a proxy that has not noticed the drain would open a new one for each request. If the address were closed, the operating
 * system would reset connections that the process has not accepted yet.
 */
export async function serveWhenReady(
  part: Generations<Monitored>,
  host: ProcessHost,
  open: () => Promise<Opened>,
): Promise<Started> {
  const { postern, shutdown, log } = host;
  const opsAddress = await servePrivately(part, host);
  log.info("service.starting", { opsAddress });
  let opening: Promise<Opened> | undefined;
  let isStopping = false;
  shutdown.defer("public address", async () => {
    isStopping = true;
    part.drain();
    const opened = await opening?.catch(() => undefined); // `fatal` reports this failure
    if (opened === undefined) return;
    await delay(postern.drain_secs * 1000); // In this time, load balancers notice the drain.
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

/** Serves the private address of a part's process. Resolves with the bound address. */
export function servePrivately(
  part: Generations<Monitored>,
  { metrics, opsAddress, shutdown, aboutConfig }: ProcessHost,
): Promise<string> {
  const readiness = () => {
    const { ready, checks } = part.readiness();
    return { ready, checks: { ...checks, config: aboutConfig() } };
  };
  const ready = metrics.gauge("postern_ready", "1 while /readyz answers 200");
  metrics.beforeScrape(() => ready.set(Number(part.readiness().ready)));
  return serveOps(readiness, metrics, opsAddress, shutdown, () => part.current.opsRoutes ?? NO_ROUTES);
}

const NO_ROUTES: readonly [] = [];
