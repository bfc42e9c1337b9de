import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import type { Partition } from "../../../shared/redis/partition.ts";

/**
 * Time limit for an answer of partition 0. The limit is long, because calls of other jobs can use the slots meanwhile.
 */
const ANSWER_MS = 2000;

/** Partition 0, where workers coordinate across all partitions, and whether its Redis can be used. */
export type Control = {
  readonly partition: Partition;
  readonly server: { readonly isUsable: boolean };
  readonly log: Logger;
};

/**
 * Resolves with the answer of partition 0, or with undefined if there is no answer in time. The client keeps the command until
 * Redis returns. So a late answer is possible; it is passed to `undo`.
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
