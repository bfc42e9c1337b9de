import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import type { LoadResult } from "../processes/load-protocol.ts";
import { cpuMsOf } from "./proc.ts";

export type Round = { perSecond: number; p50Ms: number; p99Ms: number; cpuUs: number; redisUs: number };
export type Size = { warmUp: number; calls: number };

export const COLUMNS = [
  ["p50 ms", "p50Ms"],
  ["p99 ms", "p99Ms"],
  ["cpu µs/request", "cpuUs"],
] as const;

type Measured = { redis: PrivateRedis; server: Part; size: Size };

/** Runs `sendAll`. Returns the rate and latencies that it measured, and the CPU time of server and Redis per request. */
export async function timed(measured: Measured, sendAll: () => Promise<LoadResult>): Promise<Round> {
  const { result, ...cpu } = await withCpu(measured, sendAll);
  const { perSecond, p50Ms, p99Ms } = result;
  return { perSecond, p50Ms, p99Ms, ...cpu };
}

/** Runs `work`, which sends `size` requests, and measures how much CPU time server and Redis use for each of them. */
export async function withCpu<Result>(
  { redis, server, size }: Measured,
  work: () => Promise<Result>,
): Promise<Pick<Round, "cpuUs" | "redisUs"> & { result: Result }> {
  const before = { server: cpuMsOf(server.process.pid), redis: cpuMsOf(redis.pid) };
  const perRequest = (ms: number) => (ms * 1000) / (size.warmUp + size.calls);
  const result = await work();
  const cpuUs = perRequest(cpuMsOf(server.process.pid) - before.server);
  return { result, cpuUs, redisUs: perRequest(cpuMsOf(redis.pid) - before.redis) };
}
