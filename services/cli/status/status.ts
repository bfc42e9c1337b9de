import type { FlowView } from "../../../shared/console/overview/flow.ts";
import type { OverviewView } from "../../../shared/console/overview/overview.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT, withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { findRunningDev } from "../../../shared/platform/lifecycle/running-dev.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { UNBOUNDED } from "../../../shared/redis/server-state.ts";
import type { RunnerStatus } from "../../../shared/telemetry/processes/runner-health.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type Column, createTable } from "../table.ts";
import { counted, duration, jsonLine, plain } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { redisAnswers } from "../with-redis.ts";

export type StatusOptions = OperationTarget & {
  json?: boolean;
  watch?: boolean;
  /**
   * Whether to show a running `postern dev` if the Redis in the configuration does not answer. Set if the user gave no
   * --config-dir.
   */
  mayFindDev?: boolean;
};

const WATCH_MS = 2000;
const CLEAR_SCREEN = "\x1b[H\x1b[J";

/**
 * `postern status`: prints the queues by origin, the counts of the last hour, and the running processes. Exit code 1 if
 * Redis is configured so that it may lose data.
 */
export async function showStatus(deps: ProgramDeps, options: StatusOptions): Promise<number> {
  const { print, say, note, printError, terminal } = deps;
  const { json, watch } = options;
  const configDir = await dirOf(deps, options);
  const clear = watch && !json && terminal.columns !== undefined ? CLEAR_SCREEN : "";
  return withOperations(deps, { ...options, configDir }, async (operations) => {
    const show = async (): Promise<number> => {
      const [overview, flow] = await Promise.all([
        operations.getOverview(),
        operations.getFlow({ span: "1h" }),
      ]);
      const shown = toShown(overview, flow);
      const { problem } = shown.redis;
      if (json) print(jsonLine(shown));
      say(`${clear}${statusText(shown, deps)}`);
      if (problem === null) return EXIT.ok;
      if (!watch && json) printError(`${problem}\n`);
      return EXIT.failed;
    };
    if (!watch) return show();
    return repeat(() =>
      show().catch((error: unknown) => {
        note(`cannot read the status: ${messageOf(error)}\n`);
        return EXIT.failed;
      }),
    );
  });
}

/**
 * Returns the configuration directory in the options. If its Redis does not answer and `mayFindDev` is set, returns
 * the directory of a running `postern dev`.
 */
async function dirOf(deps: ProgramDeps, { configDir, operator, mayFindDev }: StatusOptions): Promise<string> {
  if (!mayFindDev || operator !== undefined) return configDir;
  const dev = findRunningDev(deps.env);
  if (dev === undefined || (await redisAnswers(deps, configDir))) return configDir;
  deps.note(`this is the running postern dev (process ${dev.pid}): --config-dir ${plain(dev.config_dir)}\n`);
  return dev.config_dir;
}

/**
 * Shows the status repeatedly until SIGINT or SIGTERM, for --watch. Resolves with the last exit code. Continues while
 * Redis is unavailable, because operators want to see when it returns.
 */
function repeat(show: () => Promise<number>): Promise<number> {
  return withStopSignal(async (stopped) => {
    const stop = new AbortController();
    void stopped.then(() => stop.abort());
    let code: number = EXIT.ok;
    while (!stop.signal.aborted) {
      code = await show();
      await delay(WATCH_MS, stop.signal).catch(() => {});
    }
    return code;
  });
}

type Shown = ReturnType<typeof toShown>;

/** Adds to the overview the calls per minute of each queue, and the totals of the last hour. */
function toShown(overview: OverviewView, { lines, refusing }: FlowView) {
  return {
    ...overview,
    queues: overview.queues.map((queue) => ({
      ...queue,
      accepted_per_minute: queue.last_minute?.accepted ?? null,
      injected_per_minute: queue.last_minute?.injected ?? null,
      failed_per_minute: queue.last_minute?.failed ?? null,
    })),
    last_hour: lines.map(({ origin, total }) => ({ origin, ...total })),
    refusing,
  };
}

const NUMBER = { alignRight: true };

const COLUMNS: readonly Column[] = [
  { heading: "ORIGIN" },
  { heading: "WAITING", ...NUMBER },
  { heading: "DELAYED", ...NUMBER },
  { heading: "HELD", ...NUMBER },
  { heading: "IN FLIGHT", alignRight: true },
  { heading: "FAILED", alignRight: true, tone: (count) => (count === "0" ? undefined : "bad") },
  { heading: "OLDEST", alignRight: true },
  { heading: "ACCEPTED/MIN", shortHeading: "ACC/MIN", ...NUMBER },
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
  { heading: "LOADED", alignRight: true },
  { heading: "DURABILITY", tone: (mode) => (mode === "relaxed" ? "attention" : undefined) },
  { heading: "UPTIME", alignRight: true },
];

/** Words for the states of a runner, the same as in the console. JSON has the state itself. */
const STATE_WORDS = {
  unasked: "no answer reported yet",
  answers: "answers",
  failing: "answers with 5xx",
  silent: "does not answer",
  away: "unreachable",
} as const satisfies Record<RunnerStatus["state"], string>;

const BAD_WORDS: readonly string[] = [STATE_WORDS.failing, STATE_WORDS.silent, STATE_WORDS.away];

const RUNNERS: readonly Column[] = [
  { heading: "RUNNER" },
  { heading: "STATE", tone: (word) => (BAD_WORDS.includes(word) ? "bad" : undefined) },
  { heading: "LAST ANSWER", alignRight: true },
  { heading: "PRODUCERS", alignRight: true },
  { heading: "ADDRESS" },
];

const PARTITIONS: readonly Column[] = [
  { heading: "PARTITION", ...NUMBER },
  { heading: "ADDRESS" },
  { heading: "STATE", tone: (word) => (word === "usable" ? undefined : "bad") },
  { heading: "WAITING", ...NUMBER },
  { heading: "MEMORY", ...NUMBER },
];

/** Formats the status for people. */
function statusText(shown: Shown, { terminal, paint }: ProgramDeps): string {
  const { queues, workers, redis, last_hour: lastHour, processes, processes_unreadable: unreadable } = shown;
  const at = Date.parse(shown.at);
  const lines: string[] = [];
  const print = (text: string): void => void lines.push(text);
  const show = (columns: readonly Column[], rows: readonly string[][]): void => {
    const table = createTable(columns, { screen: terminal.columns, print, say: print, paint });
    for (const cells of rows) table.add(cells);
    table.end();
  };
  print("queues (/MIN: calls of the last minute, up to 20 s behind):\n");
  show(COLUMNS, queues.map(queueCells));
  print("\n");
  print("last hour (up to 10 s behind)\nP50 and P99 are times from accepted to injected:\n");
  show(LAST_HOUR, lastHour.map(lastHourCells));
  for (const refusing of shown.refusing) print(`${paint("attention", refusingLine(refusing))}\n`);
  print("\n");
  show(
    PROCESSES,
    processes.map((process) => processCells(process, at)),
  );
  for (const note of [
    ...differences(processes),
    ...processes.flatMap(configNote),
    ...processes.flatMap(clockNote),
  ])
    print(`${paint("attention", note)}\n`);
  if (unreadable > 0)
    print(
      `${paint("attention", `not shown: ${counted(unreadable, "process", "processes")} with an unreadable record`)}\n`,
    );
  if (shown.runners.length > 0) {
    print("\nrunners (up to 10 s behind):\n");
    show(
      RUNNERS,
      shown.runners.map((runner) => runnerCells(runner, at)),
    );
  }
  if (shown.partitions.length > 1) {
    print("\npartitions:\n");
    show(PARTITIONS, shown.partitions.map(partitionCells));
    for (const { index, reachable } of shown.partitions)
      if (!reachable) print(`${paint("bad", `the counts lack the calls of partition ${index}`)}\n`);
  }
  for (const line of paymentLines(shown.payments, at)) print(`\n${paint("attention", line)}`);
  const alive = `producers alive: ${workers.length}`;
  return [
    `${shown.at}\n`,
    ...lines,
    `\n${paint(workers.length === 0 ? "attention" : undefined, alive)}\n`,
    ...workers.map(
      ({ id, heartbeat_age_ms: ageMs }) =>
        `  ${plain(id)}  last heartbeat ${(ageMs / 1000).toFixed(1)} s ago\n`,
    ),
    `\nredis: ${paint(redis.problem === null ? undefined : "bad", redisLine(redis))}\n`,
  ].join("");
}

function partitionCells({
  index,
  address,
  reachable,
  problem,
  waiting,
  used_memory_bytes: used,
  max_memory_bytes: max,
}: Shown["partitions"][number]): string[] {
  const state = !reachable ? "unusable" : problem === null ? "usable" : "durability not kept";
  const memory =
    used === null ? "-" : max ? `${round((used / max) * 100)} %` : `${Math.round(used / 1e6)} MB`;
  return [String(index), plain(address ?? "-"), state, waiting === null ? "-" : String(waiting), memory];
}

/** Formats a line about payments in review, and one about disputed payments. Leaves out a line if there are no such payments. */
function paymentLines({ review, disputed }: Shown["payments"], at: number): string[] {
  const line = (name: string, { count, oldest_at: oldest }: typeof review, command: string) => {
    const age = oldest === null ? "" : `, the oldest for ${duration(Math.max(0, at - Date.parse(oldest)))}`;
    return count === 0 ? [] : [`payments ${name}: ${count}${age} (${command})\n`];
  };
  return [
    ...line("in review", review, "postern payments list --state review"),
    ...line("disputed", disputed, "postern payments list --disputed"),
  ];
}

function queueCells(queue: Shown["queues"][number]): string[] {
  const oldest = queue.oldest_age_ms === null ? "-" : duration(queue.oldest_age_ms);
  const counts = [queue.waiting, queue.delayed, queue.held, queue.active, queue.failed].map(String);
  const rates = [queue.accepted_per_minute, queue.injected_per_minute, queue.failed_per_minute];
  return [queue.origin, ...counts, oldest, ...rates.map((rate) => (rate === null ? "-" : String(rate)))];
}

function lastHourCells({
  origin,
  accepted,
  refused,
  injected,
  failed,
  p50_ms,
  p99_ms,
}: Shown["last_hour"][number]): string[] {
  return [origin, ...[accepted, refused, injected, failed].map(String), latency(p50_ms), latency(p99_ms)];
}

/** Formats a line about an endpoint that refused many requests: the main reason, and the command that lists the requests. */
function refusingLine({ endpoint, refused, requests, code, reason }: Shown["refusing"][number]): string {
  const filter = endpoint === null ? "--unknown" : `--endpoint ${plain(endpoint)}`;
  const why = reason === null ? code : `${code}, ${plain(reason)}`;
  return `refused in the last 10 min: ${refused} of ${requests} webhooks at ${endpoint === null ? "paths that no endpoint has" : plain(endpoint)} (${why}; postern rejected list ${filter})`;
}

function latency(ms: number | null): string {
  if (ms === null) return "-";
  if (ms < 1000) return `${ms} ms`;
  return ms < 60_000 ? `${ms / 1000} s` : duration(ms);
}

type Process = Shown["processes"][number];

function processCells(
  { kind, host, pid, version, config, configured_at, durability, started_at }: Process,
  at: number,
) {
  const since = (time: string) => duration(Math.max(0, at - Date.parse(time)));
  return [kind, host, String(pid), version, config, since(configured_at), durability, since(started_at)];
}

function runnerCells(
  { name, url, state, reason, answered_at: answeredAt, producers, unanswered }: Shown["runners"][number],
  at: number,
) {
  const answered = answeredAt === null ? "-" : `${duration(Math.max(0, at - Date.parse(answeredAt)))} ago`;
  const some = unanswered > 0 && unanswered < producers ? `${unanswered} of ${producers}` : String(producers);
  const word = STATE_WORDS[state as RunnerStatus["state"]] ?? state;
  return [name, word, answered, some, reason === null ? url : `${url}: ${reason}`];
}

/** Minimum difference between two clocks that is reported. A smaller one may be an error of the measurement. */
const CLOCK_OFF_MS = 1000;

/** Reports the clock of a process if it differs from that of Redis. */
function clockNote({ kind, host, pid, clock_ahead_ms: ms }: Process): string[] {
  if (Math.abs(ms) < CLOCK_OFF_MS) return [];
  const off = `${duration(Math.round(Math.abs(ms) / 1000) * 1000)} ${ms > 0 ? "ahead of" : "behind"}`;
  return [
    `${kind} ${host} ${pid}: its clock is ${off} the clock of Redis; synchronize both machines with NTP`,
  ];
}

/** Says why a process does not use the configuration that is in its files. */
function configNote({ kind, host, pid, config_problem: problem }: Process): string[] {
  return problem === null
    ? []
    : [`${kind} ${host} ${pid}: its newest configuration is not in force: ${plain(problem)}`];
}

/** Reports each kind of process that runs with different releases or configurations, as in an incomplete rollout. */
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

function redisLine({
  durability,
  problem,
  proof,
  used_memory_bytes: used,
  max_memory_bytes: max,
}: Shown["redis"]) {
  if (problem !== null) return `durability ${durability}, NOT KEPT. ${problem}`;
  return `durability ${durability} (${PROOFS[proof ?? ""] ?? plain(proof ?? "")}); ${memory(used ?? 0, max ?? 0)}`;
}

function memory(usedBytes: number, maxBytes: number): string {
  const used = `${Math.round(usedBytes / 1e6)} MB used`;
  return maxBytes === 0
    ? `${used}. ${UNBOUNDED}`
    : `${used}, ${round((usedBytes / maxBytes) * 100)} % of maxmemory`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
