import { openProblems } from "../../shared/config/operator-toml.ts";
import { textOf } from "../../shared/config/problem.ts";
import { type OperatorConfig, readOperator } from "../../shared/config/read-operator.ts";
import { listen, parseAddress } from "../../shared/http/listen.ts";
import type { PartKind } from "../../shared/part/host.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored, serveWhenReady } from "../../shared/part/serve.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { connectBeside } from "../../shared/redis/connect.ts";
import { createMeters } from "./metrics.ts";
import { composeOperator } from "./operator.ts";
import { builtPage } from "./serve-page.ts";

/** For one reply, which may be a body of 25 MiB that comes from afar. */
const PATIENCE_MS = 60_000;

export function runOperator(options: ProcessOptions): Promise<number> {
  const { configDir, env } = options;
  const bindAddressOf = ({ operator }: OperatorConfig) => options.bindAddress ?? operator.bind_address;
  const part: PartKind<OperatorConfig> = {
    kind: "operator",
    need: "requests",
    hasCalls: true,
    read(files) {
      const config = readOperator(files, env, "operator");
      const [problem] = openProblems(config.operator, bindAddressOf(config));
      if (problem === undefined) return config;
      throw new AppError("start.config_invalid", { reason: textOf(problem, config.operator) });
    },
  };
  return runMonitored({ ...part, opsAddress: "127.0.0.1:9095", createMeters }, options, (host) => {
    const { operator, metrics, partitions, log, shutdown } = host;
    const bindAddress = bindAddressOf(host);
    const { host: bindHost } = parseAddress(bindAddress);
    const work = partitions.map((partition) => {
      const redis = connectBeside(partition.redis, { commandTimeout: PATIENCE_MS });
      shutdown.defer("redis for long work", () => redis.disconnect());
      return { ...partition, redis };
    });
    const service = composeOperator({ ...host, bindHost, pageDir: builtPage(), configDir, env, work });
    const streams = metrics.gauge("postern_operator_streams", "Open streams of server-sent events");
    metrics.beforeScrape(() => streams.set(service.liveStreams()));

    async function open() {
      const server = await listen(service.handler, bindAddress, { ...service.http, log });
      const about = {
        address: server.address,
        url: operator.public_url ?? server.url,
        tokens: operator.tokens.map(({ name, role }) => `${name} (${role})`),
      };
      return { ...server, about };
    }
    return serveWhenReady(service, host, open);
  });
}
