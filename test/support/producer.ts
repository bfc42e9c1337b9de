import { Queue } from "bullmq";
import { createHttpInject } from "../../services/producer/http-runner.ts";
import { createProducer, type Producer, type ProducerOptions } from "../../services/producer/producer.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import { type JobCall, toJobCall } from "../../shared/job-call/job-call.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { createAdd } from "../../shared/queue/enqueue.ts";
import { QUEUE_OPTIONS } from "../../shared/queue/protocol.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { recordingLog } from "./recording-log.ts";

export const RUNNER_SECRET = "the secret that runner and producer share";

export function aCall(fields: Partial<Omit<JobCall, "body">> & { body?: Buffer } = {}): JobCall {
  const { body = Buffer.from("hello"), ...rest } = fields;
  const id = rest.id ?? randomCallId();
  const call = toJobCall({
    id,
    origin: "webhook",
    job_id: 1,
    metadata: {
      "X-PLATFORM-SERVICE-ID": "7",
      "X-PLATFORM-CALL-ID": id,
      "X-WEBHOOK-PATH": "/a",
      "X-WEBHOOK-ORIGIN": "webhook",
    },
    contentType: undefined,
    body,
    bodySha256: sha256Hex(body),
    accepted_at: Date.now(),
    traceparent: undefined,
  });
  return { ...call, ...rest };
}

type Options = Partial<ProducerOptions> & {
  redisUrl: string;
  runnerUrl?: string;
  timeoutMs?: number;
  signed?: boolean;
};

/** A queue and a producer in this process, with quick retries; injects over HTTP unless told otherwise. */
export function startProducer({
  redisUrl,
  runnerUrl = "http://127.0.0.1:9",
  timeoutMs = 500,
  signed = true,
  ...given
}: Options) {
  const log = recordingLog();
  const redis = connectForWork(new Secret(redisUrl), log);
  const queue = new Queue<JobCall>("webhook", { ...QUEUE_OPTIONS, connection: redis, skipMetasUpdate: true });
  queue.on("error", () => {});
  const secret = signed ? new Secret(RUNNER_SECRET) : undefined;
  const http = createHttpInject({ url: runnerUrl, secret, timeoutMs, connections: 10, clock: systemClock });
  const producer: Producer = createProducer({
    inject: http.inject,
    redis,
    log,
    origins: ["webhook"],
    concurrency: 10,
    attempts: 3,
    backoff: { baseMs: 20, capMs: 60 },
    lockMs: 2000,
    ...given,
  });
  const count = (event: string) => log.events.filter((each) => each.event === event).length;
  return {
    log,
    redis,
    queue,
    producer,
    records: createCallRecords(redis),
    add: createAdd(redis, "webhook", log),
    count,
    /** Resolves once so many events of this name were logged. */
    saw: (event: string, times = 1) => eventually(`${times} ${event}`, () => count(event) >= times),
    failed: () => queue.getJobs(["failed"]),
    async close() {
      await producer.close(3000);
      await http.close();
      await queue.close();
      redis.disconnect();
    },
  };
}
