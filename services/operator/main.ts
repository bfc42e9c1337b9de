import { loadOperatorConfig } from "../../shared/config/load-operator-config.ts";
import { openProblems } from "../../shared/config/operator-toml.ts";
import { textOf } from "../../shared/config/problem.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { listen, parseAddress } from "../../shared/http/listen.ts";
import { serveOps } from "../../shared/http/ops.ts";
import { serveWhenReady } from "../../shared/http/serve-when-ready.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { metered } from "../../shared/log/metered.ts";
import { createMetrics } from "../../shared/metrics/metrics.ts";
import { openReports } from "../../shared/processes/report.ts";
import { registerClock } from "../../shared/redis/clock.ts";
import { connectBeside, connectForRequests } from "../../shared/redis/connect.ts";
import { createMeters } from "./metrics.ts";
import { composeOperator } from "./operator.ts";
import { builtPage } from "./page.ts";

export type OperatorProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
};

/** For one reply, which may be a body of 25 MiB that comes from afar. */
const PATIENCE_MS = 60_000;
const CLOSE_GRACE_MS = 5000;

export function runOperator(options: OperatorProcess): Promise<number> {
  return runService("operator", options, async ({ log: plainLog, shutdown }) => {
    const { configDir: dir, env } = options;
    const { postern, operator, warnings } = loadOperatorConfig({ dir, env, reader: "operator" });
    const bindAddress = options.bindAddress ?? operator.bind_address;
    const [problem] = openProblems(operator, bindAddress);
    if (problem !== undefined)
      throw new AppError("start.config_invalid", { reason: textOf(problem, operator) });
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const meteredLog = metered(plainLog, createMeters(metrics));

    const redis = connectForRequests(postern.redis.url, meteredLog);
    shutdown.defer("redis", () => redis.disconnect());
    registerClock(metrics, redis);
    const workRedis = connectBeside(redis, { commandTimeout: PATIENCE_MS });
    shutdown.defer("redis for long work", () => workRedis.disconnect());

    const reports = openReports({ kind: "operator", postern, config: { operator }, redis, log: meteredLog });
    shutdown.defer("reports", reports.stop);
    const { log } = reports;

    const { host: bindHost } = parseAddress(bindAddress);
    const pageDir = builtPage();
    const files = { pageDir, configDir: dir, env };
    const service = composeOperator({ operator, postern, bindHost, ...files, redis, workRedis, log });
    shutdown.defer("operator", () => service.close());
    const streams = metrics.gauge("postern_operator_streams", "Open streams of server-sent events");
    metrics.beforeScrape(() => streams.set(service.liveStreams()));

    const privateAddress = options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9095";
    const opsAddress = await serveOps(service.readiness, metrics, privateAddress, shutdown);

    log.info("service.starting", { opsAddress });

    async function open() {
      const { keep_alive_secs, connections: connectionsMax } = postern.http;
      const keepAliveMs = keep_alive_secs * 1000;
      const server = await listen(service.handler, bindAddress, { keepAliveMs, connectionsMax, log });
      log.info("service.started", {
        ...{ address: server.address, url: operator.public_url ?? server.url, opsAddress },
        tokens: operator.tokens.map(({ name, role }) => `${name} (${role})`),
      });
      return server;
    }

    const { firstCheck: ready, drain } = service;
    const drainMs = postern.drain_secs * 1000;
    return { fatal: serveWhenReady({ ready, open, drain, drainMs, graceMs: CLOSE_GRACE_MS, shutdown }) };
  });
}
