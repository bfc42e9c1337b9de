import { AppError, messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { cut } from "../../platform/text/cut.ts";
import { wellFormedJson } from "../../platform/text/well-formed-json.ts";
import { defineScript } from "../define-script.ts";
import type { Keys } from "../keys.ts";
import type { Partition } from "../partition.ts";
import { nothing } from "../reply.ts";
import { ACTIONS, type AuditEntry, SUBJECTS } from "./actions.ts";
import writeActLua from "./write-act.lua";
import writeReadLua from "./write-read.lua";

/**
 * Limits of the streams, for the scripts. Lines of `acts` and `money` are kept for `keptMs`, which is longer than ended
 * payments are kept. In a day, the first `aDay` lines of each action by each operator go to the acts, and further ones to the
 * repeats. There, a text is cut to `repeatBytes`.
 */
export const AUDIT = {
  keptMs: 400 * 86_400_000,
  trimmedAtOnce: 100,
  aDay: 200,
  dayMs: 86_400_000,
  repeatsKept: 100_000,
  repeatBytes: 300,
  readsKept: 100_000,
} as const;

/** Limits of a line's texts, in UTF-16 units. */
const TEXT_MAX = 1000;
const NAME_MAX = 256;

const WRITE_ACT = defineScript({
  source: writeActLua,
  keys: "acts, repeats, actCount",
  args: "line",
  constants: { AUDIT },
  proof: "needed",
  reply: nothing,
});
const WRITE_READ = defineScript({
  source: writeReadLua,
  keys: "reads",
  args: "line",
  constants: { AUDIT },
  proof: "needed",
  reply: nothing,
});

export type Audit = (entry: AuditEntry<"acts" | "reads">) => Promise<void>;

/**
 * Creates the function that writes a line to the log and to the audit log. Write the line before the action, so that no
 * action lacks its line, even if the process dies. Do not use this function for an action that a script performs on a call, a
 * job, a bulk operation or a payment: that script writes the line itself. Throws `queue.unavailable`.
 */
export function createAudit({ redis, keys }: Partition, log: Logger): Audit {
  const [writeAct, writeRead] = [WRITE_ACT.on(redis), WRITE_READ.on(redis)];

  async function write(entry: AuditEntry<"acts" | "reads">): Promise<void> {
    if (ACTIONS[entry.action].stream === "reads")
      await writeRead({ reads: keys.audit("reads") }, { line: toLine(entry) });
    else await writeAct(actKeys(keys, entry), { line: toLine(entry) });
  }

  return async (entry) => {
    logAudited(log, entry);
    await write(entry).catch((cause: unknown) => {
      const { action } = entry;
      const reason = `the audit line (${action} of ${subjectOf(entry)}) could not be written: ${messageOf(cause)}`;
      throw new AppError("queue.unavailable", { reason, cause });
    });
  };
}

/**
 * Returns the keys that a script needs to add an entry to the acts (add-act.lua). A script always declares these keys, so
 * they are returned even if there is no entry to add.
 */
export function actKeys(keys: Keys, entry: AuditEntry | undefined) {
  return {
    acts: keys.audit("acts"),
    repeats: keys.audit("repeats"),
    actCount: keys.auditCount(countedAs(entry), cut(entry?.by ?? "", NAME_MAX)),
  };
}

/**
 * Returns the name under which an entry is counted for the daily limit. Entries about the calls of a bulk operation have a
 * count of their own. So they do not use up the limit for calls that the operator acts on one by one.
 */
function countedAs(entry: AuditEntry | undefined): string {
  if (entry === undefined) return "";
  const isOfRun = entry.run !== undefined && ACTIONS[entry.action].about !== "run";
  return isOfRun ? `${entry.action} in runs` : entry.action;
}

/** Encodes a line as a JSON array of field names and values, for a script that adds it. Long texts are cut. */
export function toLine(entry: AuditEntry): string {
  return wellFormedJson(Object.entries(fieldsOf(entry)).flat());
}

/** Writes an entry to the process's log. */
export function logAudited(log: Logger, entry: AuditEntry): void {
  const { event, about } = ACTIONS[entry.action];
  const { by, selection, reason, transaction, run } = entry;
  const details = {
    ...(reason !== undefined && { reason }),
    ...(transaction !== undefined && { transaction }),
  };
  log.info(event, {
    action: entry.action,
    [about]: subjectOf(entry),
    by,
    selection,
    ...details,
    ...(run !== undefined && { run }),
  });
}

function fieldsOf(entry: AuditEntry): Record<string, string> {
  const { at, action, by, selection, reason, transaction, run } = entry;
  return {
    at: String(at),
    action,
    [SUBJECTS[ACTIONS[action].about]]: subjectOf(entry),
    by: cut(by, NAME_MAX),
    selection: cut(selection, TEXT_MAX),
    ...(reason !== undefined && { reason: cut(reason, TEXT_MAX) }),
    ...(transaction !== undefined && { transaction }),
    ...(run !== undefined && { run }),
  };
}

/** Returns the call, job or other subject of an entry. */
function subjectOf(entry: AuditEntry): string {
  const { about } = ACTIONS[entry.action];
  return (entry as Readonly<Record<string, unknown>>)[about] as string;
}
