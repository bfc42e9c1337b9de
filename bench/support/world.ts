import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeConfig } from "../../shared/config/write-config.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { type LoggedProcess, startLogged } from "./logged-process.ts";
import { type Sink, startSink } from "./sink.ts";

export const HOOK_PATH = "/hooks/bench";
/** The same endpoint for calls with a delivery id. */
export const SECRET = "the-secret-that-a-bench-signs-with";
export const CONCURRENCY = 50;
export const CONNECTIONS = 64;

/** 300 bytes of JSON, as a webhook might send them. */
export const BODY = JSON.stringify({ event: "push", id: 4_711, text: "" }).replace('""', (quotes) =>
  quotes.replace('""', `"${"x".repeat(300 - 35)}"`),
);

/** A Redis as strict durability wants it, a sink in the runner's place, and whatever a part starts beside them. */
export type World = {
  readonly redis: PrivateRedis;
  readonly sink: Sink;
  /** Files may be left here: it goes with the world. */
  readonly dir: string;
  start(name: string, script: string, args: readonly string[]): Promise<LoggedProcess>;
  startGateway(): Promise<LoggedProcess>;
  startProducer(): Promise<LoggedProcess>;
  startBaselineIngress(): Promise<LoggedProcess>;
  startBaselineDrain(): Promise<LoggedProcess>;
};

export const PROGRAM = "services/cli/main.ts";

/** Runs `measure` in a world of its own and takes the world down, whatever happens. */
export async function inWorld<Result>(
  nodeArgs: readonly string[],
  measure: (world: World) => Promise<Result>,
): Promise<Result> {
  const dir = mkdtempSync(join(tmpdir(), "postern-bench-"));
  const running: LoggedProcess[] = [];
  // A rewrite of the append-only file would fall into some round, and onto one side of the comparison.
  const redis = await startRedis({ env: process.env, args: ["--auto-aof-rewrite-percentage", "0"] });
  const start: World["start"] = async (name, script, args) => {
    const profiled = script.startsWith("bench/processes") ? [] : nodeArgs;
    const process = await startLogged({ name, script, args, dir, nodeArgs: profiled });
    running.push(process);
    return process;
  };
  try {
    const sink = await startSink(start);
    const configDir = join(dir, "config");
    writeConfig(configDir, configOf(redis.url, sink.url));
    const ops = ["--config-dir", configDir, "--ops-address", "127.0.0.1:0"];
    const gateway = ["webhooks", ...ops, "--bind-address", "127.0.0.1:0", "--service-id", "1"];
    return await measure({
      redis,
      sink,
      dir,
      start,
      startGateway: () => start("gateway", PROGRAM, gateway),
      startProducer: () => start("producer", PROGRAM, ["producer", ...ops]),
      startBaselineIngress: () => start("baseline", "bench/baselines/ingress.ts", [redis.url, SECRET]),
      startBaselineDrain: () =>
        start("baseline-drain", "bench/baselines/drain.ts", [redis.url, sink.url, String(CONCURRENCY)]),
    });
  } finally {
    await Promise.all(running.map((process) => process.stop()));
    await redis.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** What every service of a world agrees on. */
export function posternTable(redisUrl: string, runnerUrl: string) {
  return {
    drain_secs: 0,
    redis: { url: redisUrl },
    runner: { url: runnerUrl },
    producer: { concurrency: CONCURRENCY },
  };
}

function configOf(redisUrl: string, runnerUrl: string) {
  return {
    postern: posternTable(redisUrl, runnerUrl),
    webhooks: {
      endpoints: [{ path: HOOK_PATH, name: "bench", job_id: 1, auth: "hmac-sha256", secret: SECRET }],
    },
  };
}
