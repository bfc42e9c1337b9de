import { z } from "zod";
import { lastSeen } from "../../redis/last-seen.ts";
import type { Partition } from "../../redis/partition.ts";
import { KINDS, type Process, REPORT_KEPT_MS } from "./process.ts";
import { StoredRunners } from "./runner-health.ts";

const Stored = z
  .object({
    kind: z.enum(KINDS),
    host: z.string(),
    pid: z.coerce.number(),
    version: z.string(),
    config: z.string(),
    durability: z.enum(["strict", "replicated", "managed", "relaxed"]),
    started_at: z.coerce.number(),
    configured_at: z.coerce.number().optional(),
    config_problem: z.string().default(""),
    reloads: z.coerce.number().optional(),
    clock_ahead_ms: z.coerce.number().default(0),
    runners: StoredRunners.prefault("[]"),
  })
  .transform(
    ({ started_at, configured_at = started_at, config_problem, clock_ahead_ms: clockAheadMs, ...rest }) => ({
      ...rest,
      configProblem: config_problem === "" ? undefined : config_problem,
      clockAheadMs,
      startedAt: started_at - clockAheadMs,
      configuredAt: configured_at - clockAheadMs,
    }),
  );

export type Processes = {
  /** Sorted by kind, host and start. */
  processes: Process[];
  /** Number of processes whose record in Redis is damaged, or has a value that only another release knows. */
  unreadable: number;
};

export type ReadProcesses = () => Promise<Processes>;

/**
 * Creates the function that lists the running processes: those with a report within `REPORT_KEPT_MS` that have not
 * signed off (`stop` in report.ts).
 */
export function createReadProcesses({ redis, keys }: Partition): ReadProcesses {
  return async () => {
    const seen = await lastSeen(redis, keys.processes, REPORT_KEPT_MS);
    const records = await Promise.all(seen.map(({ member }) => redis.hgetall(keys.process(member))));
    const processes: Process[] = [];
    let unreadable = 0;
    for (const [i, { member: id, ageMs: silentMs }] of seen.entries()) {
      const record = records[i] ?? {};
      if (Object.keys(record).length === 0) continue; // the process stopped after `lastSeen` was read
      const stored = Stored.safeParse(record).data;
      if (stored === undefined) unreadable += 1;
      else processes.push({ id, ...stored, silentMs });
    }
    return { processes: processes.sort(inOrder), unreadable };
  };
}

function inOrder(a: Process, b: Process): number {
  const byKind = KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind);
  return byKind || a.host.localeCompare(b.host) || a.startedAt - b.startedAt || a.pid - b.pid;
}
