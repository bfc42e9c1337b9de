import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import type { Partition } from "../../../shared/redis/partition.ts";

/**
 * Time limit for an answer of partition 0. It may be long, because only the slot that waits for the answer is blocked. Calls
 * of jobs that need no permit can use the other slots.
 */
const ANSWER_MS = 2000;

/** Partition 0, where workers coordinate across all partitions, and whether its Redis can be used. */
export type Control = {
  readonly partition: Partition;
  readonly server: { readonly isUsable: boolean };
  readonly log: Logger;
};

/**
 * Resolves with the answer of partition 0, or with undefined if there is no answer in time. The client keeps the command
 * until Redis returns, so the answer may come after that. A late answer is passed to `undo`, which for example releases a
 * permit that is no longer needed.
 */
export async function askControl<Answer>(
  { server, log }: Control,
  ask: () => Promise<Answer>,
  undo: (late: Answer) => void = () => {},
): Promise<Answer | undefined> {
  if (!server.isUsable) return undefined;
  const answer = ask();
  const outcome = await within(ANSWER_MS, answer);
  if (outcome.kind === "done") return outcome.result;
  if (outcome.kind === "late") answer.then(undo, () => {});
  else log.warn("queue.error", { reason: messageOf(outcome.error) });
  return undefined;
}
