import { createRunner, type Runner, type RunnerOptions } from "../../services/runner/runner.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { connectForRequests, type Redis } from "../../shared/redis/connect.ts";
import { type Answer, send } from "../support/http.ts";
import { type RecordingLog, recordingLog } from "../support/recording-log.ts";

export type TestRunner = {
  address: string;
  runner: Runner;
  log: RecordingLog;
  /** Posts a call; an object replaces or adds headers, undefined removes one. */
  offer(key: string, offered?: Offered): Promise<Answer>;
  /** Asks for a failed call to be run again. */
  runAgain(key: string, sent?: Pick<Offered, "body" | "headers">): Promise<Answer>;
  get(path: string): Promise<Answer>;
  /** As SIGKILL would: from now on this runner tells Redis nothing more. */
  drop(): void;
};

export type Offered = {
  job?: number;
  body?: Buffer | string;
  headers?: Record<string, string | undefined>;
};

export type Rig = {
  redis: PrivateRedis;
  start(options: Omit<RunnerOptions, "redis">): Promise<TestRunner>;
  stop(): Promise<void>;
};

/** Looks into the Redis of the rig, or changes it, as only a test may. */
export async function onRedis<Result>(rig: Rig, work: (redis: Redis) => Promise<Result>): Promise<Result> {
  const redis = connectForRequests(new Secret(rig.redis.url), silentLogger);
  try {
    await eventually("connected", () => redis.status === "ready");
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

/** A private Redis, and runners on it. */
export async function startRig(): Promise<Rig> {
  const redis = await startRedis({ env: process.env });
  const ends: (() => Promise<void>)[] = [];
  return {
    redis,
    async start(options) {
      const started = await startRunner(redis.url, options);
      ends.push(started.end);
      return started.testRunner;
    },
    async stop() {
      await Promise.all(ends.map((end) => end()));
      await redis.stop();
    },
  };
}

async function startRunner(redisUrl: string, options: Omit<RunnerOptions, "redis">) {
  const log = recordingLog();
  const redis = connectForRequests(new Secret(redisUrl), log);
  const runner = createRunner({ log, ...options, redis });
  const { address } = await runner.listen("127.0.0.1:0");
  const get = (path: string) => send(address, { method: "GET", path });
  await eventually("the runner is ready", async () => (await get("/readyz")).status === 200);
  const testRunner: TestRunner = {
    address,
    runner,
    log,
    offer: (key, offered) => offer(address, key, offered),
    runAgain: (key, { body = "", headers = {} } = {}) =>
      send(address, { path: `/calls/${key}/run`, headers: toPairs(headers), body }),
    get,
    drop: () => redis.disconnect(),
  };
  const end = async () => {
    await runner.close(200);
    redis.disconnect();
  };
  return { testRunner, end };
}

function offer(
  address: string,
  key: string,
  { job = 1, body = "", headers = {} }: Offered = {},
): Promise<Answer> {
  return send(address, {
    path: `/jobs/${job}`,
    headers: toPairs({ "Idempotency-Key": key, ...headers }),
    body,
  });
}

function toPairs(headers: Record<string, string | undefined>): string[] {
  return Object.entries(headers)
    .filter((entry): entry is [string, string] => entry[1] !== undefined)
    .flat();
}

/** The headers with which a producer of that secret sends this call. */
export function signedHeaders(
  secret: Secret,
  key: string,
  { job = 1, body = "", headers = {}, path = `/jobs/${job}` }: Offered & { path?: string } = {},
) {
  const covered: Record<string, string> = {
    "content-digest": contentDigest(sha256Hex(Buffer.from(body))),
    "idempotency-key": key,
  };
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) covered[name.toLowerCase()] = value;
  const message = { method: "POST", path, headers: covered };
  const { "idempotency-key": _, ...rest } = covered;
  return { ...rest, ...signMessage(secret, message, Math.floor(Date.now() / 1000)) };
}

/** A handler that a test lets go on when it wants, and the count of how often it ran. */
export function gate() {
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { runs: 0, open, opened };
}
