import { randomBytes } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { isAbsent, readText } from "../platform/text/read-text.ts";
import { toIso } from "../platform/time/iso.ts";
import { defineScript } from "./define-script.ts";
import { createClaimLayout, LAYOUT } from "./layout.ts";
import lookAtDeploymentLua from "./look-at-deployment.lua";
import type { Partition, Partitioned } from "./partition.ts";
import raiseLastReportLua from "./raise-last-report.lua";
import { integer, nothing, numeric, optional, text, tuple } from "./reply.ts";

/** Example of the day (UTC) at the beginning of a deployment's id. Only its length is used. */
const DAY = "2026-11-07";

export function newDeploymentId(): string {
  return `${toIso(Date.now()).slice(0, DAY.length)}-${randomBytes(4).toString("hex")}`;
}

const DAY_MS = 86_400_000;

/**
 * Returns whether this may be the first start of the deployment, in which case Redis may be empty. It may be if the day in
 * the deployment's id is at most one day from today.
 */
function isNew(id: string): boolean {
  const age = Date.now() - Date.parse(id.slice(0, DAY.length));
  return age >= -DAY_MS && age < 2 * DAY_MS; // both limits, so that a clock that was reset does not make a deployment new again
}

/** Reply of look-at-deployment.lua: id, times of the last adoption and the last report, `expects` and `unaudited`. */
const FOUND = tuple(text, integer, integer, integer, optional(numeric));
type Found = ReturnType<typeof FOUND>;

const CHECK = defineScript({
  source: lookAtDeploymentLua,
  keys: "deployment, layout",
  args: "place, id, beginsEmpty, beginsKept, seenAdopted, seenAt, lossMs",
  constants: { LAYOUT },
  proof: "expendable",
  reply: optional(FOUND),
});

const RAISE = defineScript({
  source: raiseLastReportLua,
  keys: "layout, deployment",
  args: "deploymentId, isSettled, seenAdopted, seenAt, lossMs",
  constants: { LAYOUT },
  proof: "expendable",
  reply: nothing,
});

/**
 * The deployment's data as this process saw it last: its id, and the times of its last adoption and last report, unix ms by
 * Redis' clock.
 */
const Seen = z.strictObject({ id: z.string(), adopted: z.int(), at: z.int() });
type Seen = z.infer<typeof Seen>;

export type DeploymentOptions = {
  /** Id of the deployment, from the configuration. Default: the id that this process finds first. */
  id?: string | undefined;
  /** File that stores what this process has seen. */
  stateFile?: string | undefined;
  /** True if an empty or older Redis may be used. */
  acceptsLoss?: boolean;
  /**
   * Maximum age in ms of the writes that a failover may lose. Data that is older than expected by at most this time is
   * accepted.
   */
  lossMs?: number;
  /** Time in ms for which all checks must pass before this process may raise the time of the last report (see `reportArgs`). */
  settledMs?: number;
};

const SAVE_EVERY_MS = 10_000;
const SETTLED_MS = 10_000;
/**
 * Maximum time between two checks that passed. If it was longer, Redis may have had other data in between, so the time for
 * which all checks have passed starts again.
 */
const GAP_MS = 5000;

/**
 * Checks whether the data in Redis is the newest data of this deployment. If it is missing, old or another deployment's, it
 * is refused. The data has the id of its deployment, and the time when a process last reported to Redis. Each process
 * remembers the newest time that it saw: data with an earlier time is old. An adoption (adopt.ts) counts as newer than all
 * reports before it.
 */
export class Deployment {
  readonly #options: DeploymentOptions;
  readonly #log: Logger;
  readonly #control: Partition | undefined;
  #seen: Seen | undefined;
  #problem: string | undefined;
  #unauditedSince: number | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #passesSince = 0;
  #savedAt = Number.NEGATIVE_INFINITY;
  #isSaved = true;
  /**
   * Suffix of the temporary file to which this process writes its state before it renames it. Processes may share a state
   * file, so each has its own suffix.
   */
  readonly #writer = randomBytes(4).toString("hex");

  /** `control` is partition 0, which has the list of the partitions in use. If it is absent, there is only one partition. */
  constructor(options: DeploymentOptions, log: Logger, control?: Partition) {
    this.#options = options;
    this.#log = log;
    this.#control = control;
    const { id, stateFile } = options;
    const kept = stateFile === undefined ? undefined : readState(stateFile);
    if (id === undefined || kept?.id === id) this.#seen = kept;
  }

  /** The reason why the data in Redis is refused; undefined if it is accepted. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Payments since this time (unix ms) must be audited before jobs are sold again; undefined if all are audited. */
  get unauditedSince(): number | undefined {
    return this.#unauditedSince;
  }

  /**
   * Arguments for a script that compares the data with what this process has seen (older.lua). `id` is empty until an id is
   * known.
   */
  get #words() {
    const { id, acceptsLoss = false, lossMs = 0 } = this.#options;
    const { adopted, at } = (acceptsLoss ? undefined : this.#seen) ?? { adopted: 0, at: 0 };
    return { id: id ?? this.#seen?.id ?? "", seenAdopted: adopted, seenAt: at, lossMs };
  }

  /**
   * Arguments for a script that raises the time of the last report (last-report.lua). The script does not raise it until
   * `isSettled`. Redis may hold an old copy of the data, which only another process can recognize, because it has seen newer
   * data. A raised time would make this copy look new to that process.
   */
  get reportArgs() {
    const { settledMs = SETTLED_MS } = this.#options;
    const isSettled = this.#seen !== undefined && this.#checkedAt - this.#passesSince >= settledMs;
    const { id: deploymentId, ...seen } = this.#words;
    return { deploymentId, isSettled, ...seen };
  }

  /**
   * Creates the function that raises the time of the last report in a partition other than 0. There it must be raised
   * separately, because processes send their reports only to partition 0.
   */
  createRaise({ redis, keys: { layout, deployment } }: Partition): () => Promise<void> {
    const raise = RAISE.on(redis);
    return () => raise({ layout, deployment }, this.reportArgs);
  }

  /**
   * Creates the function that checks the data. It throws `start.wrong_redis` if the data is not the deployment's newest. With
   * `claims`, it may assign an empty Redis, or data without a deployment id, to the deployment.
   */
  createCheck(
    { redis, keys, index, count }: Partition,
    { claims }: { claims: boolean },
  ): () => Promise<void> {
    const look = CHECK.on(redis);
    const { deployment, layout } = keys;
    const { id: configured, acceptsLoss = false } = this.#options;
    const begun = this.#begunOf(index);
    return async () => {
      const words = this.#words;
      const isFirst = words.seenAt === 0;
      const mayBeEmpty = acceptsLoss || (isFirst && (configured === undefined || isNew(configured)));
      const lookAs = (beginsEmpty: boolean) =>
        look(
          { deployment, layout },
          {
            ...words,
            place: JSON.stringify({ index, count }),
            id: words.id || newDeploymentId(),
            beginsEmpty,
            beginsKept: claims && isFirst,
          },
        );
      let found = await lookAs(claims && mayBeEmpty && begun === undefined);
      const isNewHere = found?.[0] === "" && mayBeEmpty && (acceptsLoss || !(await begun?.hasThis()));
      if (claims && isNewHere) found = await lookAs(true);
      this.#problem = undefined;
      if (found === undefined || (isNewHere && !claims)) return;
      this.#accept(words.id, found);
    };
  }

  /**
   * Creates the function that adds a partition to the list of the partitions in use. Call that function once the partition's
   * layout is claimed.
   */
  createNoteBegun({ index }: Partition): () => void {
    const begun = this.#begunOf(index);
    return () => void begun?.add(this.#words.id).catch(() => {});
  }

  /** Returns the functions for the list of partitions in use. Undefined for partition 0, which is not on its own list. */
  #begunOf(index: number) {
    return this.#control && index !== this.#control.index ? createBegun(index, this.#control) : undefined;
  }

  /** Accepts the data that was found, or throws `start.wrong_redis`. */
  #accept(expected: string, [id, adopted, at, expects, unauditedSince]: Found): void {
    this.#problem = problemOf(expected, { id, at, expects });
    if (this.#problem !== undefined) throw new AppError("start.wrong_redis", { reason: this.#problem });
    this.#unauditedSince = unauditedSince;
    this.#remember({ id, adopted, at });
  }

  /**
   * Remembers the newest state of the deployment that Redis has reported. An older state is ignored, unless `acceptsLoss` is
   * set. Replies on different connections may arrive in another order than Redis sent them, so an older state may come last.
   */
  #remember(found: Seen): void {
    const now = performance.now();
    if (now - this.#checkedAt > GAP_MS) this.#passesSince = now;
    this.#checkedAt = now;
    const { adopted, at } = this.#seen ?? found;
    const isNewer = found.adopted === adopted ? found.at >= at : found.adopted > adopted;
    if (isNewer || this.#options.acceptsLoss) this.#seen = found;
    this.#save();
  }

  #save(): void {
    const { stateFile } = this.#options;
    if (stateFile === undefined || performance.now() - this.#savedAt < SAVE_EVERY_MS) return;
    this.#savedAt = performance.now();
    const unfinished = `${stateFile}.${this.#writer}`;
    try {
      writeFileSync(unfinished, JSON.stringify(this.#seen), { flush: true });
      renameSync(unfinished, stateFile);
      this.#isSaved = true;
    } catch (error) {
      rmSync(unfinished, { force: true });
      if (this.#isSaved) this.#log.warn("redis.state_not_saved", { reason: messageOf(error) });
      this.#isSaved = false;
    }
  }
}

/** Returns the earliest `unauditedSince` of any partition. */
export function unauditedIn({ all }: Partitioned<Deployment>): number | undefined {
  const known = all.flatMap(({ unauditedSince }) => unauditedSince ?? []);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * Creates functions that read and extend the list of partitions in use, which is in partition 0. If a partition is on the
 * list but its Redis is empty, it has lost its data. If it is not on the list, it is new.
 */
function createBegun(index: number, { redis, keys }: Partition) {
  let isListed = false;
  return {
    /** Returns whether the list has this partition. Throws `queue.unavailable` if the list cannot be read. */
    async hasThis(): Promise<boolean> {
      if (redis.status !== "ready") throw new AppError("queue.unavailable", { reason: NO_LIST });
      return (await redis.sismember(keys.partitions, String(index))) === 1;
    },
    /** Adds this partition to the list, if partition 0 has the data of this deployment. */
    async add(id: string): Promise<void> {
      if (isListed || redis.status !== "ready") return;
      if ((await redis.hget(keys.deployment, "id")) !== id) return;
      await redis.sadd(keys.partitions, String(index));
      isListed = true;
    },
  };
}

const NO_LIST = "partition 0, which knows whether this one is new, cannot be reached";

/** Registers a gauge that shows for each partition whether its data is refused. */
export function registerDeployment(metrics: Metrics, deployments: Partitioned<Deployment>): void {
  const wrong = metrics.gauge(
    "postern_redis_wrong_data",
    "1 while the partition is empty, or holds old data or another deployment's",
    ["partition"],
  );
  metrics.beforeScrape(() => {
    for (const [partition, { problem }] of deployments.all.entries())
      wrong.set({ partition }, Number(problem !== undefined));
  });
}

/**
 * Creates the check of a partition's data for a process that writes. It checks the deployment before it claims the layout, so
 * that nothing is written to a wrong Redis.
 */
export function createClaimData(partition: Partition, deployment: Deployment | undefined) {
  const check = deployment?.createCheck(partition, { claims: true });
  const claim = createClaimLayout(partition, { isChecked: deployment !== undefined });
  const noteBegun = deployment?.createNoteBegun(partition);
  return async (): Promise<void> => {
    await check?.();
    await claim();
    noteBegun?.();
  };
}

const REMEDY =
  "Start the right Redis with its newest data, or correct [redis] in postern.toml. Nothing is accepted until then, and no process has to " +
  "be restarted. If the data is lost, run `postern redis adopt` (docs/backup.md#adopt)";

function problemOf(expected: string, found: { id: string; at: number; expects: number }): string | undefined {
  const { id, at, expects } = found;
  if (id === "") {
    const first = `If this is the first start, run \`postern redis adopt --without-audit --reason "first start"\``;
    return `Redis is empty, but must hold the data of deployment ${expected}. ${REMEDY}. ${first}`;
  }
  if (expected !== "" && id !== expected)
    return `Redis holds the data of deployment ${id}, but must hold that of ${expected}. ${REMEDY}`;
  if (expects === 0) return undefined;
  const newest = `a process has seen its report of ${toIso(expects)}`;
  return at === 0
    ? `Redis has lost the data of deployment ${id}: ${newest}. ${REMEDY}`
    : `Redis holds an old copy of deployment ${id}: its last report is of ${toIso(at)}, but ${newest}. ${REMEDY}`;
}

/** Reads the state file; undefined before the first start. Throws `start.config_invalid`. */
function readState(path: string): Seen | undefined {
  if (isAbsent(path)) return undefined;
  try {
    return Seen.parse(JSON.parse(readText(path)));
  } catch (cause) {
    const reason = `[redis] state_file ${path} cannot be read: ${messageOf(cause)}. If it is damaged, delete it`;
    throw new AppError("start.config_invalid", { reason, cause });
  }
}
