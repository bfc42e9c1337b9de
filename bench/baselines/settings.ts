/** Settings of the baselines' queue, like those of Postern. Baselines and Postern share no code except libraries. */
export const QUEUE = "calls";

export const QUEUE_OPTIONS = { prefix: "{baseline}", streams: { events: { maxLen: 100 } } };

export const JOB_OPTIONS = {
  attempts: 20,
  backoff: { type: "exponential", delay: 1000 },
  removeOnComplete: true,
  removeOnFail: false,
  stackTraceLimit: 1,
};

/** A call in a baseline's queue. The runner gets the same POST as from Postern. */
export type StoredCall = { job_id: number; headers: Record<string, string>; body: string };

/** Logs the address of this process, as Postern's own processes do, and ends the process on SIGTERM. */
export function announce(fields: Record<string, unknown>): void {
  console.log(JSON.stringify({ event: "service.started", ...fields }));
  process.once("SIGTERM", () => process.exit(0));
}
