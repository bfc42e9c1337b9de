import { JOB_ORIGINS } from "../call/origin.ts";
import { RECORD } from "../call/record-state.ts";
import { BATCH_BYTES_MAX } from "../redis/batches.ts";
import { fromScript } from "../redis/unreadable.ts";
import { LOG_KEPT } from "./call-log.ts";
import { AWAITED_KEEP_MS, PREPARED_FIELD } from "./callbacks.ts";
import { CRASHES, JOB_NAME, JOB_OPTIONS } from "./protocol.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";

/** Prefix of the answer for an item of a batch whose function threw an error (each-alone.lua). The error's message follows. */
const FAILED_ALONE = "ERROR: ";

/** Answer of a worker's step if the runner accepted a call after the call's refund was exported. */
export const AFTER_REFUND = "AFTER_REFUND";

/** Constants for every script that includes frame.lua, which connects our scripts with BullMQ's. */
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

/** Returns the answer for one item of a batch. Throws if the item failed. */
export function answerOf<Answer>(answer: Answer): Answer {
  if (typeof answer !== "string" || !answer.startsWith(FAILED_ALONE)) return answer;
  throw fromScript(new Error(answer.slice(FAILED_ALONE.length)));
}
