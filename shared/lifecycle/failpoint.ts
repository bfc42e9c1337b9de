/** The instants at which a test kills a process to see that nothing is lost and nothing runs twice. */
export const CRASH_POINTS = [
  "gateway.before_claim",
  "gateway.after_claim",
  "gateway.after_add",
  "gateway.after_queued",
  "gateway.after_answer",
  "x402.after_verify",
  "x402.after_claim",
  "x402.after_settle",
  "x402.after_settled",
  "x402.after_add",
  "x402.after_queued",
  "x402.after_answer",
  "x402.after_evidence",
  "x402.after_void",
  "producer.after_take",
  "producer.before_post",
  "producer.after_post",
  "producer.after_injected",
  "producer.after_attempt_recorded",
  "producer.after_parked",
  "runner.after_begin",
  "runner.in_handler",
  "runner.after_handler",
  "runner.after_remembered",
  "runner.after_answer",
  "runner.after_stored",
] as const;
export type CrashPoint = (typeof CRASH_POINTS)[number];

/** Called at each crash point; does nothing outside a test. */
export type Reached = (point: CrashPoint) => void;

export const nothingHappens: Reached = () => {};

/** Kills this process, as power loss would, when it reaches `armed` (the value of POSTERN_CRASH_AT). */
export function crashAt(armed: string | undefined): Reached {
  if (armed === undefined || armed === "") return nothingHappens;
  return (point) => {
    if (point === armed) process.kill(process.pid, "SIGKILL");
  };
}
