/**
 * Settings of the queue that the hand-written baselines use. They equal Postern's settings, so that only the code differs.
 * The values are copied, because baselines and Postern share no code except libraries.
 */
export const QUEUE = "calls";

export const QUEUE_OPTIONS = { prefix: "{baseline}", streams: { events: { maxLen: 100 } } };

export const JOB_OPTIONS = {
  attempts: 20,
  backoff: { type: "exponential", delay: 1000 },
  removeOnComplete: true,
  removeOnFail: false,
  stackTraceLimit: 1,
};

/** A call as a baseline stores it in its queue. The runner gets the same request for it as it would from Postern. */
export type StoredCall = { job_id: number; headers: Record<string, string>; body: string };

/**
 * Logs the address of this process, and ends the process on SIGTERM. The bench finds the address in the log, as it does
 * with Postern's own processes.
 */
export function announce(fields: Record<string, unknown>): void {
  console.log(JSON.stringify({ event: "service.started", ...fields }));
  process.once("SIGTERM", () => process.exit(0));
}
