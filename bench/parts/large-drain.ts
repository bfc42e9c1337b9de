import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { toJobCall } from "../../shared/job-call/job-call.ts";
import { createEnqueue, type Enqueue } from "../../shared/queue/enqueue.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { delay } from "../../shared/time/clock.ts";
import type { Counts } from "../support/counts.ts";
import { newCall } from "../support/fill.ts";
import { peakRssBytesOf } from "../support/proc.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld, posternTable } from "../support/world.ts";
import { LARGE_BYTES } from "./large-ingress.ts";

const PRODUCERS = 4;
const LARGE_JOBS = 5;
const SMALL_CALLS = 400;
/** The runner takes so long over a large body. */
const LARGE_MS = 300;
const PATIENCE_MS = 60_000;

/** What one producer injected, and the most memory that it held. */
type OfProducer = { injected: number; peakRssBytes: number };

export type Drained = Counts & { large: number; small: number; ms: number; producers: OfProducer[] };

/** Large calls that wait, and small ones of another job beside them, for four producers with default settings. */
export function measureDrained({ quick, nodeArgs }: Setup): Promise<Drained> {
  const large = quick ? 12 : 75;
  return inWorld(nodeArgs, async ({ redis, configDir, stack }) => {
    const runner = await startRunner();
    writeConfig(configDir, { postern: posternTable(redis.url, runner.url, {}) });
    const probe = await openProbe(redis.url);
    await addAll(createEnqueue(partitionOf(probe.redis)), large);
    probe.close();
    const startedAt = performance.now();
    const producers = await Promise.all(
      Array.from({ length: PRODUCERS }, (_, i) => stack.start("producer", { name: `producer-${i + 1}` })),
    );
    await Promise.all(producers.map(untilReady));
    const accepted = large + SMALL_CALLS;
    await untilAllCame(runner, accepted, producers);
    const ms = performance.now() - startedAt;
    const perProducer = producers.map(({ process }) => ({
      injected: process.events("call.injected").length,
      peakRssBytes: peakRssBytesOf(process.pid),
    }));
    runner.close();
    return {
      accepted,
      counted: runner.ids.size,
      duplicates: runner.offers() - runner.ids.size,
      large,
      small: SMALL_CALLS,
      ms,
      producers: perProducer,
    };
  });
}

/** The large calls first, since what waits longer is taken first. */
async function addAll(add: Enqueue, large: number): Promise<void> {
  const body = Buffer.alloc(LARGE_BYTES, "x");
  const bodySha256 = sha256Hex(body);
  for (let i = 0; i < large; i++) {
    const { id, origin, service_id, metadata, accepted_at } = newCall();
    const made = { id, origin, service_id, metadata, accepted_at, body, bodySha256 };
    const job_id = 2 + (i % LARGE_JOBS);
    await add(
      toJobCall({ ...made, job_id, contentType: undefined, traceparent: undefined }),
      undefined,
      "large",
    );
  }
  for (let i = 0; i < SMALL_CALLS; i++) await add(newCall());
}

type Runner = { url: string; ids: ReadonlySet<string>; offers(): number; close(): void };

/** Reads every body, and takes a little longer over a large one. */
async function startRunner(): Promise<Runner> {
  const ids = new Set<string>();
  let offers = 0;
  const server = createServer((req, res) => {
    let bytes = 0;
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    req.on("end", async () => {
      if (bytes === LARGE_BYTES) await delay(LARGE_MS);
      if (req.url?.startsWith("/jobs/")) {
        offers += 1;
        ids.add(String(req.headers["idempotency-key"]));
      }
      res.writeHead(200, { "Content-Length": 0 }).end();
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ids,
    offers: () => offers,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Resolves once so many calls have come, or none has for a while. Throws if a producer ends. */
async function untilAllCame({ ids }: Runner, calls: number, producers: readonly Part[]): Promise<void> {
  const ended: string[] = [];
  for (const { process } of producers) {
    void process.exit.then(({ code, signal }) => ended.push(`${process.name} (${signal ?? code})`));
  }
  let seen = 0;
  let progressAt = performance.now();
  while (seen < calls && performance.now() - progressAt < PATIENCE_MS) {
    await delay(100);
    if (ended.length > 0) throw new Error(`producers have ended: ${ended.join(", ")}`);
    if (ids.size > seen) progressAt = performance.now();
    seen = ids.size;
  }
}
