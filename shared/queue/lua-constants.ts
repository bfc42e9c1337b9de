import { JOB_ORIGINS } from "../call/origin.ts";
import { RECORD } from "../call/record-state.ts";
import { BATCH_BYTES_MAX } from "../redis/batches.ts";
import { fromScript } from "../redis/unreadable.ts";
import { LOG_KEPT } from "./call-log.ts";
import { AWAITED_KEEP_MS, PREPARED_FIELD } from "./callbacks.ts";
import { CRASHES, JOB_NAME, JOB_OPTIONS } from "./protocol.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";

/** Begins the answer for an item of a batch that has failed alone. */
const FAILED_ALONE = "ERROR: ";

/** The answer of a worker's step if the runner has taken a call whose refund was exported meanwhile. */
export const AFTER_REFUND = "AFTER_REFUND";

/** Constants of the Lua around BullMQ's, for each script that includes it. */
export const QUEUE_CONSTANTS = {
  CALLBACKS_GATE,
  JOB_ORIGINS: JOB_ORIGINS.join(" "),
  JOB_NAME,
  JOB_OPTIONS,
  PREPARED_FIELD,
  AWAITED_KEEP_MS,
  CRASHES,
  BATCH_BYTES_MAX,
  FAILED_ALONE,
  AFTER_REFUND,
  LOG_KEPT,
  RECORD,
};

/** The answer for one item of a batch. Throws if it has failed alone. */
export function answerOf<Answer>(answer: Answer): Answer {
  if (typeof answer !== "string" || !answer.startsWith(FAILED_ALONE)) return answer;
  throw fromScript(new Error(answer.slice(FAILED_ALONE.length)));
}
