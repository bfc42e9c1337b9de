/**
 * Points in the program at which a test can kill a process. The test then checks that nothing is lost or runs twice.
 */
export const FAILPOINTS = [
  "gateway.before_add",
  "gateway.after_add",
  "gateway.after_answer",
  "x402.after_verify",
  "x402.after_claim",
  "x402.after_settle",
  "x402.after_queued",
  "x402.after_answer",
  "x402.after_evidence",
  "x402.after_void",
  "producer.after_wake",
  "producer.after_poll",
  "producer.after_removed",
  "producer.after_fetch",
  "producer.after_take",
  "producer.before_post",
  "producer.after_post",
  "producer.after_attempt_recorded",
  "producer.after_failed",
  "producer.after_finish",
  "callback.before_post",
  "callback.after_post",
  "runner.after_begin",
  "runner.in_handler",
  "runner.after_handler",
  "runner.after_remembered",
  "runner.after_answer",
  "runner.after_stored",
  "runner.after_delivered",
  "wait.begun",
  "wait.before_answer",
  "delivery.before_stored",
  "delivery.after_stored",
  "operator.before_forgotten",
  "operator.after_forgotten",
  "operator.before_replayed",
  "operator.after_replayed",
  "operator.before_dropped",
  "operator.after_dropped",
  "operator.after_released",
  "console.after_begun",
  "console.after_taken",
  "console.after_counted",
  "console.after_operated",
  "console.before_ended",
  "money.after_exported",
  "money.after_closed",
] as const;
export type Failpoint = (typeof FAILPOINTS)[number];

let armed: string | undefined;

/**
 * Selects the failpoint at which this process is killed. Called once at the start with the value of POSTERN_FAILPOINT.
 */
export function armFailpoint(name: string | undefined): void {
  armed = name;
}

/** Kills this process as a power loss would, if this failpoint is armed. Outside tests, no failpoint is armed. */
export function failpoint(name: Failpoint): void {
  if (name === armed) process.kill(process.pid, "SIGKILL");
}
