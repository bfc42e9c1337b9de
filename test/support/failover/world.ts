import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { TomlTable } from "smol-toml";
import { callIdFrom } from "../../../shared/call/call-id.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { type PosternProcess, startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { prefixesOf } from "../../../shared/part/places.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { newDeploymentId } from "../../../shared/redis/deployment.ts";
import { DEFAULT_NAME, keysOf } from "../../../shared/redis/keys.ts";
import { Partitioned } from "../../../shared/redis/partition.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { send } from "../http.ts";
import { tempDir } from "../temp-dir.ts";
import { at, type Topology } from "./topology.ts";
import { WAYS, type WayName } from "./ways.ts";

const PATH = "/hooks/job";
const DELIVERY = "X-Delivery-Id";
const BODY = "x";
const QUEUE = "webhook/0/1";
/** Number of concurrent senders, and of webhooks that must be accepted before and after the failure of the primary. */
type Load = { senders: number; before: number; after: number };
const FULL_LOAD: Load = { senders: 16, before: 300, after: 200 };
/** Enough load that calls wait in Redis when the primary fails. */
export const SMALL_LOAD: Load = { senders: 4, before: 60, after: 40 };
/** Pause of a sender whose webhook did not get a 202. */
const RETRY_PAUSE_MS = 200;
/** Number of calls that the producer sends at once. */
export const IN_FLIGHT = 4;

/** Two webhooks gateways and a producer, and a runner that counts how often it gets each call. */
export type FailoverWorld = {
  readonly redis: Topology;
  /** Prefixes of the keys of each partition. */
  readonly prefixes: Partitioned<string>;
  readonly gateways: readonly string[];
  readonly runner: CountingRunner;
  /** Sends one webhook with this delivery id. Resolves with undefined if no answer came. */
  deliver(gateway: string, delivery: string): ReturnType<typeof deliverTo>;
  end(): Promise<void>;
};

export type FailoverFigures = {
  way: WayName;
  accepted: number;
  /** Calls that got a 202 but never reached the runner, including those that still wait. */
  lost: string[];
  /** Calls that wait in Redis while the producer makes no progress. */
  waiting: number;
  /** Calls that reached the runner more than once. */
  sentAgain: number;
  /** Longest time between two 202 answers, over all senders. */
  without202Ms: number;
};

type CountingRunner = { sent: Map<string, number>; delayMs: number; url: string; close(): Promise<void> };

type Options = {
  /** Further keys of `[redis]`, beside those of `redis.place`. */
  settings: TomlTable;
  loginOf?: (kind: ProcessKind) => TomlTable;
  partitions?: number;
};

export async function startFailoverWorld(
  redis: Topology,
  { settings, loginOf = () => ({}), partitions = 1 }: Options,
): Promise<FailoverWorld> {
  const several = partitions === 1 ? {} : { partitions, deployment_id: newDeploymentId() };
  const runner = await startCountingRunner();
  const start = (kind: ProcessKind, args: readonly string[] = []): PosternProcess => {
    const dir = join(tempDir(), "config");
    writeConfig(dir, {
      postern: {
        drain_secs: 0,
        redis: { ...redis.place, ...several, ...loginOf(kind), ...settings },
        runner: { url: runner.url, timeout_ms: 2000 },
        producer: { concurrency: IN_FLIGHT, lock_ms: 10_000, backoff: { base_ms: 50, cap_ms: 500 } },
      },
      webhooks: { endpoints: [{ path: PATH, job_id: 1, auth: "none", idempotency_header: DELIVERY }] },
    });
    const words = [kind, ...args, "--config-dir", dir, "--ops-address", "127.0.0.1:0"];
    return startProcess({ name: kind, args: words, env: process.env });
  };
  const webhooks = [1, 2].map(() => start("webhooks", ["--bind-address", "127.0.0.1:0"]));
  const processes = [...webhooks, start("producer")];
  const started = await Promise.all(processes.map((each) => each.waitForEvent("service.started")));
  return {
    redis,
    prefixes: new Partitioned(prefixesOf(DEFAULT_NAME, partitions)),
    runner,
    gateways: started.slice(0, webhooks.length).map(({ address }) => String(address)),
    deliver: deliverTo,
    async end() {
      await Promise.all(processes.map((each) => each.kill("SIGKILL")));
      await runner.close();
    },
  };
}

async function startCountingRunner(): Promise<CountingRunner> {
  const sent = new Map<string, number>();
  const server: Server = createServer((req, res) => {
    const id = String(req.headers["idempotency-key"]);
    sent.set(id, (sent.get(id) ?? 0) + 1);
    req.resume().on("end", () => setTimeout(() => res.end(), runner.delayMs));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const runner: CountingRunner = {
    sent,
    delayMs: 0,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
  return runner;
}

const deliverTo = (gateway: string, delivery: string) =>
  send(gateway, { path: PATH, headers: { [DELIVERY]: delivery }, body: BODY, timeoutMs: 10_000 }).catch(
    () => undefined,
  );

/** Returns the id of the call of this delivery. */
export const callIdOf = (delivery: string): string =>
  callIdFrom(PATH, delivery, sha256Hex(Buffer.from(BODY)));

/** Returns the servers with the partition of this prefix only, for an event that hits them. */
function serversWith(prefix: string, redis: Topology): Topology {
  return {
    ...redis,
    primary: (key = prefix) => redis.primary(key),
    failOver: (key = prefix) => redis.failOver(key),
    untilSynced: (key = prefix) => redis.untilSynced(key),
    untilTakenOver: (port, key = prefix) => redis.untilTakenOver(port, key),
  };
}

/**
 * Sends webhooks to both gateways, each until it gets a 202. Meanwhile one event hits the servers of the partition
 * with the prefix `hit`.
 */
export async function measureFailover(
  world: FailoverWorld,
  way: WayName,
  load = FULL_LOAD,
  hit = world.prefixes.control,
): Promise<FailoverFigures> {
  const { runner, gateways, redis, prefixes } = world;
  const accepted = new Set<string>();
  let isOver = false;
  let [count, last, without202Ms] = [0, performance.now(), 0];
  const begun = `${way} ${performance.now()}`;

  function note(id: string): void {
    const now = performance.now();
    if (accepted.size > 0) without202Ms = Math.max(without202Ms, now - last);
    last = now;
    accepted.add(id);
  }
  async function sendAll(sender: number): Promise<void> {
    while (!isOver) {
      const delivery = `${begun} ${sender} ${count++}`;
      for (let tries = sender; !isOver; tries++) {
        const answer = await deliverTo(gateways[tries % gateways.length] ?? "", delivery);
        if (answer?.status === 202) {
          note(String(answer.json()["call_id"]));
          break;
        }
        await delay(RETRY_PAUSE_MS);
      }
    }
  }

  // Without synced replicas no server could become the primary.
  await Promise.all(prefixes.all.map((prefix) => redis.untilSynced(prefix)));
  // The runner is slow at first, so that calls wait in Redis.
  runner.delayMs = 50;
  const senders = Array.from({ length: load.senders }, (_, i) => sendAll(i));
  await eventually("calls are accepted", () => accepted.size > load.before);
  await WAYS[way](serversWith(hit, redis));
  const during = accepted.size;
  await eventually("calls are accepted again", () => accepted.size > during + load.after);
  isOver = true;
  await Promise.all(senders);
  runner.delayMs = 0;
  const unsent = (): string[] => [...accepted].filter((id) => !runner.sent.has(id));
  const waiting = await untilNoneWaits(world, unsent);
  const sentAgain = [...accepted].filter((id) => (runner.sent.get(id) ?? 0) > 1).length;
  const figures = { sentAgain, without202Ms: Math.round(without202Ms) };
  return { way, accepted: accepted.size, lost: unsent(), waiting, ...figures };
}

/** The producer counts as stuck if calls wait and none is sent for this time. */
const STANDSTILL_MS = 60_000;

/**
 * Resolves with the number of waiting calls, once it is zero or the producer is stuck. The duration depends on the
 * disk, because each call needs several syncs of three servers.
 */
async function untilNoneWaits(world: FailoverWorld, unsent: () => string[]): Promise<number> {
  let [fewest, at] = [Number.POSITIVE_INFINITY, performance.now()];
  let waiting = Number.NaN;
  while (performance.now() - at < STANDSTILL_MS) {
    const now = unsent().length;
    if (now === 0) return 0;
    if (now < fewest) [fewest, at] = [now, performance.now()];
    waiting = await countWaiting(world).catch(() => Number.NaN);
    if (waiting === 0) return 0;
    await delay(50);
  }
  return waiting;
}

/** Returns the number of calls of the only job that are neither delivered nor failed. */
async function countWaiting({ redis, prefixes }: FailoverWorld): Promise<number> {
  const counts = await Promise.all(
    prefixes.all.map(async (prefix) => {
      const { port } = await redis.primary(prefix);
      const { inQueue } = keysOf(prefix);
      return at(port, async (client) => {
        const [wait, active, delayed] = await Promise.all([
          client.llen(inQueue(QUEUE, "wait")),
          client.llen(inQueue(QUEUE, "active")),
          client.zcard(inQueue(QUEUE, "delayed")),
        ]);
        return wait + active + delayed;
      });
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}
