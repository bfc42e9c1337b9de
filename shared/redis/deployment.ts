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

/** Begins an id (UTC). */
const DAY = "2026-11-07";

export function newDeploymentId(): string {
  return `${toIso(Date.now()).slice(0, DAY.length)}-${randomBytes(4).toString("hex")}`;
}

const DAY_MS = 86_400_000;

/** Whether an empty Redis is the first start of this deployment: on the day in its id, the one before or the one after. */
function isNew(id: string): boolean {
  const age = Date.now() - Date.parse(id.slice(0, DAY.length));
  return age >= -DAY_MS && age < 2 * DAY_MS; // a clock that was reset makes no deployment new again
}

/** The id, when it was adopted and when its last report was, the report that the data lacks, and the start of what is unaudited. */
const LOOKED = tuple(text, integer, integer, integer, optional(numeric));
type Looked = ReturnType<typeof LOOKED>;

const LOOK = defineScript({
  source: lookAtDeploymentLua,
  keys: "deployment, layout",
  args: "place, id, beginsEmpty, beginsKept, seenAdopted, seenAt, lossMs",
  constants: { LAYOUT },
  proof: "expendable",
  reply: optional(LOOKED),
});

const RAISE = defineScript({
  source: raiseLastReportLua,
  keys: "layout, deployment",
  args: "deploymentId, isSettled, seenAdopted, seenAt, lossMs",
  constants: { LAYOUT },
  proof: "expendable",
  reply: nothing,
});

/** The deployment as a process saw it last: when an operator adopted it, and when its last report was. Unix ms by Redis' clock. */
const Seen = z.strictObject({ id: z.string(), adopted: z.int(), at: z.int() });
type Seen = z.infer<typeof Seen>;

export type DeploymentOptions = {
  /** Id in the configuration. Without one it is the first that this process sees. */
  id?: string | undefined;
  /** File that keeps what this process has seen. */
  stateFile?: string | undefined;
  /** An empty or older Redis is used as it is. */
  acceptsLoss?: boolean;
  /** Time of the newest writes that a failover may lose. */
  lossMs?: number;
  /** How long checks must have passed before the reports raise the time of the last report. */
  settledMs?: number;
};

const SAVE_EVERY_MS = 10_000;
const SETTLED_MS = 10_000;
/** Time between two checks after which Redis may hold other data. */
const GAP_MS = 5000;

/**
 * Tells the deployment's data in Redis from data that is missing, old or another deployment's. The data has an id and the time of the
 * last report, which each report raises. A process remembers the newest time that it saw. An adoption is newer than all reports before it.
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
  /** Tells apart the processes that share a state file. */
  readonly #writer = randomBytes(4).toString("hex");

  /** `control` lists the partitions that have begun; without it there is one. */
  constructor(options: DeploymentOptions, log: Logger, control?: Partition) {
    this.#options = options;
    this.#log = log;
    this.#control = control;
    const { id, stateFile } = options;
    const kept = stateFile === undefined ? undefined : readState(stateFile);
    if (id === undefined || kept?.id === id) this.#seen = kept;
  }

  /** Why the data in Redis is refused; undefined if it is not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Start of the time whose payments must be audited before jobs are sold again (unix ms); undefined if all are audited. */
  get unauditedSince(): number | undefined {
    return this.#unauditedSince;
  }

  /** The words with which a script compares the data with what was seen (older.lua). `id` is empty while none is known. */
  get #words() {
    const { id, acceptsLoss = false, lossMs = 0 } = this.#options;
    const { adopted, at } = (acceptsLoss ? undefined : this.#seen) ?? { adopted: 0, at: 0 };
    return { id: id ?? this.#seen?.id ?? "", seenAdopted: adopted, seenAt: at, lossMs };
  }

  /**
   * The words with which a script raises the time of the last report (last-report.lua). At first it does not (`isSettled`), because another
   * process may have seen newer data: it would then take an old copy for new.
   */
  get wordsOfReport() {
    const { settledMs = SETTLED_MS } = this.#options;
    const isSettled = this.#seen !== undefined && this.#checkedAt - this.#passesSince >= settledMs;
    const { id: deploymentId, ...seen } = this.#words;
    return { deploymentId, isSettled, ...seen };
  }

  /** Raises the time of the last report in a partition that has no reports. */
  createRaise({ redis, keys: { layout, deployment } }: Partition): () => Promise<void> {
    const raise = RAISE.on(redis);
    return () => raise({ layout, deployment }, this.wordsOfReport);
  }

  /** Throws `start.wrong_redis` if the data is not the deployment's newest. With `claims`, new data may become the deployment's. */
  createCheck(
    { redis, keys, index, count }: Partition,
    { claims }: { claims: boolean },
  ): () => Promise<void> {
    const look = LOOK.on(redis);
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

  /** Notes that a partition has begun. Call it once the partition is claimed. */
  createNoteBegun({ index }: Partition): () => void {
    const begun = this.#begunOf(index);
    return () => void begun?.add(this.#words.id).catch(() => {});
  }

  /** Partition 0 is not on its own list. */
  #begunOf(index: number) {
    return this.#control && index !== this.#control.index ? createBegun(index, this.#control) : undefined;
  }

  /** Throws `start.wrong_redis`. */
  #accept(expected: string, [id, adopted, at, expects, unauditedSince]: Looked): void {
    this.#problem = problemOf(expected, { id, at, expects });
    if (this.#problem !== undefined) throw new AppError("start.wrong_redis", { reason: this.#problem });
    this.#unauditedSince = unauditedSince;
    this.#remember({ id, adopted, at });
  }

  /** Replies of several connections may come in another order than Redis gave them. */
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

/** As `unauditedSince` of a deployment: the earliest in any partition. */
export function unauditedIn({ all }: Partitioned<Deployment>): number | undefined {
  const known = all.flatMap(({ unauditedSince }) => unauditedSince ?? []);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Whether the partition of this index is on the list of those that have begun: one of these is never new. */
function createBegun(index: number, { redis, keys }: Partition) {
  let isListed = false;
  return {
    /** Throws `queue.unavailable` if the list cannot be read. */
    async hasThis(): Promise<boolean> {
      if (redis.status !== "ready") throw new AppError("queue.unavailable", { reason: NO_LIST });
      return (await redis.sismember(keys.partitions, String(index))) === 1;
    },
    /** Does nothing while partition 0 does not hold the data of this deployment. */
    async add(id: string): Promise<void> {
      if (isListed || redis.status !== "ready") return;
      if ((await redis.hget(keys.deployment, "id")) !== id) return;
      await redis.sadd(keys.partitions, String(index));
      isListed = true;
    },
  };
}

const NO_LIST = "partition 0, which knows whether this one is new, cannot be reached";

/** Shows whether the data in each partition is refused. */
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

/** The check of a process that writes: of the deployment first, so that nothing is written to a wrong Redis, then of the layout. */
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

/** Undefined before the first start. Throws `start.config_invalid`. */
function readState(path: string): Seen | undefined {
  if (isAbsent(path)) return undefined;
  try {
    return Seen.parse(JSON.parse(readText(path)));
  } catch (cause) {
    const reason = `[redis] state_file ${path} cannot be read: ${messageOf(cause)}. If it is damaged, delete it`;
    throw new AppError("start.config_invalid", { reason, cause });
  }
}
