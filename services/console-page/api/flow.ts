import type { FlowView } from "../../../shared/console/overview/flow.ts";
import type { OverviewView } from "../../../shared/console/overview/overview.ts";

export type { FlowView as Flow } from "../../../shared/console/overview/flow.ts";
export type {
  OverviewView as Overview,
  QueuesView as Queues,
} from "../../../shared/console/overview/overview.ts";

export type FlowLine = FlowView["lines"][number];
export type FlowJob = FlowView["jobs"][number];
export type ProcessStatus = OverviewView["processes"][number];
export type RunnerStatus = OverviewView["runners"][number];
export type RedisStatus = OverviewView["redis"];

/** Returns the used fraction of Redis' memory limit. Undefined if Redis has no limit, or does not report the numbers. */
export function memoryRatio({
  used_memory_bytes: used,
  max_memory_bytes: most,
}: Pick<RedisStatus, "used_memory_bytes" | "max_memory_bytes">): number | undefined {
  return used === null || most === null || most === 0 ? undefined : used / most;
}
