import { Worker } from "bullmq";
import { Redis } from "ioredis";
import { Pool } from "undici";
import { announce, QUEUE, QUEUE_OPTIONS, type StoredCall } from "./settings.ts";

/*
 * Baseline with which the bench compares the producer, as one would write it by hand: a BullMQ worker and an HTTP client
 * with a pool of connections. It validates nothing, keeps no record of a call and logs nothing. It has a timeout only if
 * an argument sets one.
 */
const [redisUrl = "", runnerUrl = "", concurrency = "50", timeoutMs] = process.argv.slice(2);
const pool = new Pool(runnerUrl, {
  connections: 2 * Number(concurrency),
  pipelining: 1,
  ...(timeoutMs !== undefined && { headersTimeout: Number(timeoutMs) }),
});

const worker = new Worker<StoredCall>(
  QUEUE,
  async ({ id = "", data }) => {
    const { statusCode, body } = await pool.request({
      method: "POST",
      path: `/jobs/${data.job_id}`,
      headers: { ...data.headers, "Idempotency-Key": id },
      body: Buffer.from(data.body, "base64"),
    });
    await body.dump();
    if (statusCode >= 300) throw new Error(`the runner answered ${statusCode}`);
  },
  {
    ...QUEUE_OPTIONS,
    connection: new Redis(redisUrl, { maxRetriesPerRequest: null }),
    concurrency: Number(concurrency),
    lockDuration: 20_000,
  },
);
await worker.waitUntilReady();
announce({});
