import { ORIGINS } from "../../shared/call/origin.ts";
import { toDurability } from "../../shared/config/redis-toml.ts";
import { runnerViews } from "../../shared/console/runners.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { EXIT, withStopSignal } from "../../shared/platform/lifecycle/run-service.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { toIso } from "../../shared/platform/time/iso.ts";
import { originOf } from "../../shared/queue/queue-name.ts";
import {
  createStatus,
  type QueueStatus,
  type RedisStatus,
  type Status,
  sumOf,
} from "../../shared/queue/status.ts";
import { UNBOUNDED } from "../../shared/redis/server-state.ts";
import { createReadProcesses, type Processes } from "../../shared/telemetry/processes/list.ts";
import type { Process } from "../../shared/telemetry/processes/process.ts";
import { type RunnerStatus, runnersOf } from "../../shared/telemetry/processes/runner-health.ts";
import {
  type OriginTotals,
  originOf as originOfSubject,
  totalsOfOrigin,
} from "../../shared/telemetry/series/counts.ts";
import { type Bucket, createReadSeries } from "../../shared/telemetry/series/read.ts";
import type { ProgramDeps } from "./program-deps.ts";
import { type Column, createTable } from "./table.ts";
import { counted, duration, jsonLine, plain } from "./text.ts";
import { withRedis } from "./with-redis.ts";

export type StatusOptions = { configDir: string; json?: boolean; watch?: boolean };

const SAMPLE_MS = 1000;
const WATCH_MS = 2000;
const CLEAR_SCREEN = "\x1b[H\x1b[J";

/** `postern status`: the calls by origin, the last hour, and which processes run. 1 if Redis cannot keep its promises. */
export function showStatus(deps: ProgramDeps, { configDir, json, watch }: StatusOptions): Promise<number> {
  const { print, say, note, printError, terminal } = deps;
  const clear = watch && !json && terminal.columns !== undefined ? CLEAR_SCREEN : "";
  return withRedis(deps, { configDir }, async ({ partition, postern, clock }) => {
    const look = createStatus({
      partition,
      ...toDurability(postern.redis),
      clock,
      sampleMs: SAMPLE_MS,
    });
    const readSeries = createReadSeries(partition);
    const readProcesses = createReadProcesses(partition);
    const show = async (): Promise<number> => {
      const [status, { counted }, processes] = await Promise.all([
        look(),
        readSeries.total("fine"),
        readProcesses(),
      ]);
      const shown = { ...status, lastHour: toLastHour(counted), ...processes };
      if (json) print(jsonLine(statusJson(shown)));
      say(`${clear}${statusText(shown, deps)}`);
      if (!("problem" in status.redis)) return EXIT.ok;
      if (!watch && json) printError(`${status.redis.problem}\n`);
      return EXIT.failed;
    };
    if (!watch) return show();
    return repeat(() =>
      show().catch((error: unknown) => {
        note(`cannot read the status from Redis: ${messageOf(error)}\n`);
        return EXIT.failed;
      }),
    );
  });
}

/** Until SIGINT or SIGTERM, also while Redis is away: that is when somebody watches. Resolves with the last exit code. */
function repeat(show: () => Promise<number>): Promise<number> {
  return withStopSignal(async (stopped) => {
    const stop = new AbortController();
    void stopped.then(() => stop.abort());
    let code: number = EXIT.ok;
    while (!stop.signal.aborted) {
      code = await show();
      await delay(WATCH_MS - SAMPLE_MS, stop.signal).catch(() => {});
    }
    return code;
  });
}

type LastHour = OriginTotals & { origin: string };

type Shown = Status & Processes & { lastHour: readonly LastHour[] };

/** What all processes have counted in it. */
function toLastHour(counted: Bucket["counted"]): LastHour[] {
  const origins = new Set<string>([...ORIGINS, ...counted.map(({ subject }) => originOfSubject(subject))]);
  return [...origins].map((origin) => ({ origin, ...totalsOfOrigin(origin, counted) }));
}

type OriginStatus = Omit<QueueStatus, "queue"> & { origin: string };

/** All queues of an origin as one; also of an origin that has none. */
function byOrigin(queues: readonly QueueStatus[]): OriginStatus[] {
  const origins = new Set([...ORIGINS, ...queues.map(({ queue }) => originOf(queue))]);
  return [...origins].map((origin) => ({
    origin,
    ...sumOf(queues.filter(({ queue }) => originOf(queue) === origin)),
  }));
}

/** For scripts. */
function statusJson({ at, queues, workers, redis, lastHour, processes, unreadable }: Shown) {
  return {
    at: toIso(at),
    queues: byOrigin(queues).map((queue) => ({
      origin: queue.origin,
      waiting: queue.waiting,
      delayed: queue.delayed,
      active: queue.active,
      failed: queue.failed,
      oldest_age_ms: queue.oldestAgeMs ?? null,
      accepted_per_second: round(queue.acceptedPerSecond),
      injected_per_minute: round(queue.injectedPerMinute),
      failed_per_minute: round(queue.failedPerMinute),
    })),
    last_hour: lastHour.map(({ p50Ms, p99Ms, ...counts }) => ({
      ...counts,
      p50_ms: p50Ms ?? null,
      p99_ms: p99Ms ?? null,
    })),
    workers: workers.map(({ id, ageMs }) => ({ id, heartbeat_age_ms: ageMs })),
    processes: processes.map(({ startedAt, silentMs, clockAheadMs, runners: _, ...rest }) => ({
      ...rest,
      clock_ahead_ms: clockAheadMs,
      started_at: toIso(startedAt),
      silent_ms: silentMs,
    })),
    processes_unreadable: unreadable,
    runners: runnerViews(processes),
    redis:
      "problem" in redis
        ? { durability: redis.mode, problem: redis.problem }
        : {
            durability: redis.mode,
            proof: redis.proof,
            memory_ratio: memoryRatio(redis) ?? null,
            maxmemory_bytes: redis.maxMemoryBytes,
          },
  };
}

const NUMBER = { alignRight: true };

const COLUMNS: readonly Column[] = [
  { heading: "ORIGIN" },
  { heading: "WAITING", ...NUMBER },
  { heading: "DELAYED", ...NUMBER },
  { heading: "IN FLIGHT", alignRight: true },
  { heading: "FAILED", alignRight: true, tone: (count) => (count === "0" ? undefined : "bad") },
  { heading: "OLDEST", alignRight: true },
  { heading: "ACCEPTED/S", shortHeading: "ACC/S", ...NUMBER },
  { heading: "INJECTED/MIN", shortHeading: "INJ/MIN", alignRight: true },
  { heading: "FAILED/MIN", shortHeading: "FAIL/MIN", ...NUMBER },
];

const LAST_HOUR: readonly Column[] = [
  { heading: "ORIGIN" },
  { heading: "ACCEPTED", alignRight: true },
  { heading: "REFUSED", alignRight: true },
  { heading: "INJECTED", alignRight: true },
  { heading: "FAILED", alignRight: true, tone: (count) => (count === "0" ? undefined : "bad") },
  { heading: "P50", alignRight: true },
  { heading: "P99", alignRight: true },
];

const PROCESSES: readonly Column[] = [
  { heading: "PROCESS" },
  { heading: "HOST", cutTo: 8 },
  { heading: "PID", alignRight: true },
  { heading: "RELEASE" },
  { heading: "CONFIG" },
  { heading: "DURABILITY", tone: (mode) => (mode === "relaxed" ? "attention" : undefined) },
  { heading: "UPTIME", alignRight: true },
];

/** The console's words. JSON has the state itself. */
const STATE_WORDS = {
  unasked: "no calls yet",
  answers: "responding",
  silent: "not responding",
  away: "unreachable",
} as const satisfies Record<RunnerStatus["state"], string>;

const UNANSWERED: readonly string[] = [STATE_WORDS.silent, STATE_WORDS.away];

const RUNNERS: readonly Column[] = [
  { heading: "RUNNER" },
  { heading: "STATE", tone: (word) => (UNANSWERED.includes(word) ? "bad" : undefined) },
  { heading: "LAST ANSWER", alignRight: true },
  { heading: "PRODUCERS", alignRight: true },
  { heading: "ADDRESS" },
];

/** For people. */
function statusText(shown: Shown, { terminal, paint }: ProgramDeps): string {
  const { at, queues, workers, redis, lastHour, processes, unreadable } = shown;
  const runners = runnersOf(processes);
  const lines: string[] = [];
  const print = (text: string): void => void lines.push(text);
  const show = (columns: readonly Column[], rows: readonly string[][]): void => {
    const table = createTable(columns, { screen: terminal.columns, print, say: print, paint });
    for (const cells of rows) table.add(cells);
    table.end();
  };
  show(COLUMNS, byOrigin(queues).map(queueCells));
  print("\n");
  print("last hour; P50 and P99 are times from accepted to injected:\n");
  show(LAST_HOUR, lastHour.map(lastHourCells));
  print("\n");
  show(
    PROCESSES,
    processes.map((process) => processCells(process, at)),
  );
  for (const note of [...differences(processes), ...processes.flatMap(clockNote)])
    print(`${paint("attention", note)}\n`);
  if (unreadable > 0)
    print(
      `${paint("attention", `not shown: ${counted(unreadable, "process", "processes")} with an unreadable record`)}\n`,
    );
  if (runners.length > 0) {
    print("\n");
    show(
      RUNNERS,
      runners.map((runner) => runnerCells(runner, at)),
    );
  }
  const alive = `producers alive: ${workers.length}`;
  return [
    `${toIso(at)}\n`,
    ...lines,
    `\n${paint(workers.length === 0 ? "attention" : undefined, alive)}\n`,
    ...workers.map(({ id, ageMs }) => `  ${plain(id)}  last heartbeat ${(ageMs / 1000).toFixed(1)} s ago\n`),
    `\nredis: ${paint("problem" in redis ? "bad" : undefined, redisLine(redis))}\n`,
  ].join("");
}

function queueCells(queue: OriginStatus): string[] {
  const oldest = queue.oldestAgeMs === undefined ? "-" : duration(queue.oldestAgeMs);
  const counts = [queue.waiting, queue.delayed, queue.active, queue.failed].map(String);
  const rates = [queue.acceptedPerSecond, queue.injectedPerMinute, queue.failedPerMinute];
  return [queue.origin, ...counts, oldest, ...rates.map((rate) => String(round(rate)))];
}

function lastHourCells({ origin, accepted, refused, injected, failed, p50Ms, p99Ms }: LastHour): string[] {
  return [origin, ...[accepted, refused, injected, failed].map(String), latency(p50Ms), latency(p99Ms)];
}

function latency(ms: number | undefined): string {
  if (ms === undefined) return "-";
  if (ms < 1000) return `${ms} ms`;
  return ms < 60_000 ? `${ms / 1000} s` : duration(ms);
}

function processCells({ kind, host, pid, version, config, durability, startedAt }: Process, at: number) {
  return [kind, host, String(pid), version, config, durability, duration(Math.max(0, at - startedAt))];
}

function runnerCells(
  { name, url, state, reason, answeredAt, producers, unanswered }: RunnerStatus,
  at: number,
) {
  const answered = answeredAt === undefined ? "-" : `${duration(Math.max(0, at - answeredAt))} ago`;
  const some = unanswered > 0 && unanswered < producers ? `${unanswered} of ${producers}` : String(producers);
  return [name, STATE_WORDS[state], answered, some, reason === undefined ? url : `${url}: ${reason}`];
}

/** A smaller difference may come from the exchange in which it was measured. */
const CLOCK_OFF_MS = 1000;

/** What there is to say of the clock of a process, if it is not that of Redis. */
function clockNote({ kind, host, pid, clockAheadMs: ms }: Process): string[] {
  if (Math.abs(ms) < CLOCK_OFF_MS) return [];
  const off = `${duration(Math.round(Math.abs(ms) / 1000) * 1000)} ${ms > 0 ? "ahead of" : "behind"}`;
  return [
    `${kind} ${host} ${pid}: its clock is ${off} the clock of Redis; synchronize both machines with NTP`,
  ];
}

/** Of which kinds the processes differ from one another: a rollout is half done, or was. */
function differences(processes: readonly Process[]): string[] {
  const kinds = [...new Set(processes.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => {
    const own = processes.filter((process) => process.kind === kind);
    const releases = new Set(own.map(({ version }) => version)).size;
    const configs = new Set(own.map(({ config }) => config)).size;
    return [
      ...(releases > 1 ? [`${kind}: ${releases} different releases are running`] : []),
      ...(configs > 1 ? [`${kind}: ${configs} different configurations are running`] : []),
    ];
  });
}

const PROOFS: Partial<Record<string, string>> = {
  always: "fsync before each reply",
  replicated: "confirmed by all replicas, each with fsync",
  managed: "as the Redis service promises",
  none: "none: accepted calls can be lost",
};

function redisLine(redis: RedisStatus): string {
  if ("problem" in redis) return `durability ${redis.mode}, NOT KEPT. ${redis.problem}`;
  const ratio = memoryRatio(redis);
  const used = `${Math.round(redis.usedMemoryBytes / 1e6)} MB`;
  const memory =
    ratio === undefined ? `${used} used. ${UNBOUNDED}` : `${used} used, ${round(ratio * 100)} % of maxmemory`;
  return `durability ${redis.mode} (${PROOFS[redis.proof] ?? plain(redis.proof)}); ${memory}`;
}

type Memory = { usedMemoryBytes: number; maxMemoryBytes: number };

function memoryRatio({ usedMemoryBytes, maxMemoryBytes }: Memory): number | undefined {
  return maxMemoryBytes === 0 ? undefined : usedMemoryBytes / maxMemoryBytes;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
