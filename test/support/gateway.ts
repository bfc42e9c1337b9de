import { Queue } from "bullmq";
import { createWebhooksGateway, type WebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { webhooksToml } from "../../shared/config/webhooks-toml.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { Limits } from "../../shared/gateway/backpressure.ts";
import { type Listening, listen } from "../../shared/http/listen.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import { QUEUE_OPTIONS } from "../../shared/queue/protocol.ts";
import { connectForRequests, connectForWork, type Redis } from "../../shared/redis/connect.ts";
import type { DurabilityMode } from "../../shared/redis/durable.ts";
import { type RecordingLog, recordingLog } from "./recording-log.ts";

export type TestGateway = {
  gateway: WebhooksGateway;
  server: Listening;
  address: string;
  log: RecordingLog;
  queue: Queue<JobCall>;
  redis: Redis;
  /** The calls that wait, oldest first. */
  waiting(): Promise<JobCall[]>;
  close(): Promise<void>;
};

export type TestGatewayOptions = {
  redisUrl: string;
  /** For looking into the queue, if the gateway itself goes through a proxy. */
  directUrl?: string;
  webhooks: Record<string, unknown>;
  durability?: DurabilityMode;
  limits?: Partial<Limits>;
  enqueueTimeoutMs?: number;
  /** Do not wait for Redis. */
  early?: boolean;
};

/** A webhooks gateway in this process, on real Redis and a real port. */
export async function startGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const log = recordingLog();
  const redis = connectForRequests(new Secret(options.redisUrl), log);
  const gateway = createWebhooksGateway({
    webhooks: webhooksToml({}).parse(options.webhooks),
    serviceId: 7,
    metadataPrefix: "X-PLATFORM",
    redis,
    durability: options.durability ?? "strict",
    limits: { queueDepthMax: 1e6, oldestAgeMsMax: undefined, redisMemoryRatioMax: 0.85, ...options.limits },
    enqueueTimeoutMs: options.enqueueTimeoutMs ?? 2000,
    log,
  });
  const requestTimeoutSecs = Number(options.webhooks["request_timeout_secs"] ?? 15);
  const server = await listen(gateway.handler, "127.0.0.1:0", {
    requestTimeoutMs: requestTimeoutSecs * 1000,
  });
  const direct = connectForWork(new Secret(options.directUrl ?? options.redisUrl), log);
  const queue = new Queue<JobCall>("webhook", {
    ...QUEUE_OPTIONS,
    connection: direct,
    skipMetasUpdate: true,
  });
  queue.on("error", () => {});
  if (!options.early) await eventually("the gateway is ready", () => gateway.readiness().ready);
  return {
    gateway,
    server,
    address: server.address,
    log,
    queue,
    redis: direct,
    waiting: async () => (await queue.getJobs(["wait"], 0, -1, true)).map((job) => job.data),
    async close() {
      await server.close(100);
      gateway.close();
      redis.disconnect();
      await queue.close();
      direct.disconnect();
    },
  };
}
