import { openProblems } from "../../shared/config/operator-toml.ts";
import { textOf } from "../../shared/config/problem.ts";
import { type OperatorConfig, readOperator } from "../../shared/config/read-operator.ts";
import { listen, parseAddress } from "../../shared/http/listen.ts";
import { measuringRequests } from "../../shared/http/request-duration.ts";
import { handlerOf } from "../../shared/part/generations.ts";
import type { CallsHost, PartKind } from "../../shared/part/host.ts";
import { closeAfterRequests } from "../../shared/part/part.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored, serveWhenReady } from "../../shared/part/serve.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { connectBeside } from "../../shared/redis/connect.ts";
import { createMeters } from "./metrics.ts";
import { composeOperator } from "./operator.ts";
import { builtPage } from "./serve-page.ts";

/** Timeout of one Redis reply, which may be a body of 25 MiB over a slow network. */
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

  /**
   * Composes the console. It gets further Redis connections with a longer timeout, for replies that take long, such
   * as a large body.
   */
  function compose(host: CallsHost & OperatorConfig) {
    const { host: bindHost } = parseAddress(bindAddressOf(host));
    const work = host.partitions.map((partition) => ({
      ...partition,
      redis: connectBeside(partition.redis, { commandTimeout: PATIENCE_MS }),
    }));
    const service = composeOperator({ ...host, bindHost, pageDir: builtPage(), configDir, env, work });
    return closeAfterRequests({
      ...service,
      async close() {
        await service.close();
        for (const { redis } of work.all) redis.disconnect();
      },
    });
  }
  const own = { ...part, opsAddress: "127.0.0.1:9095", createMeters };
  return runMonitored(own, options, compose, (generations, host) => {
    const { operator, metrics, log } = host;
    const streams = metrics.gauge("postern_operator_streams", "Open streams of server-sent events");
    metrics.beforeScrape(() => streams.set(generations.current.liveStreams()));

    const handler = measuringRequests(metrics, handlerOf(generations));

    async function open() {
      const { http } = generations.current;
      const server = await listen(handler, bindAddressOf(host), { ...http, log });
      const about = {
        address: server.address,
        url: operator.public_url ?? server.url,
        tokens: operator.tokens.map(({ name, role }) => `${name} (${role})`),
      };
      return { ...server, about };
    }
    return serveWhenReady(generations, host, open);
  });
}
