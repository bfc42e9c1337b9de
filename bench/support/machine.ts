import { spawnSync } from "node:child_process";
import { availableParallelism, cpus, loadavg } from "node:os";
import { findRedisServer } from "../../shared/dev/redis.ts";

export type Machine = { cores: number; processor: string; node: string; redis: string; load: number };

/** Describes the machine, because the figures of a bench depend on it. */
export function describeMachine(): Machine {
  const version = spawnSync(findRedisServer(process.env), ["--version"], { encoding: "utf8" }).stdout;
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? "unknown processor",
    node: process.version,
    redis: /v=(\S+)/.exec(version)?.[1] ?? "unknown",
    load: loadavg()[0] ?? 0,
  };
}

export function machineLine({ cores, processor, node, redis, load }: Machine): string {
  return `${cores} cores (${processor}), Node ${node}, Redis ${redis}, load ${load.toFixed(2)} at the start`;
}
