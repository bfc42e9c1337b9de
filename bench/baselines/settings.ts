/** What the two baselines agree on; they share nothing with Postern but the libraries and the settings of its queue. */
export const QUEUE = "calls";

export const QUEUE_OPTIONS = { prefix: "{baseline}", streams: { events: { maxLen: 100 } } };

export const JOB_OPTIONS = {
  attempts: 20,
  backoff: { type: "exponential", delay: 1000 },
  removeOnComplete: true,
  removeOnFail: false,
  stackTraceLimit: 1,
};

/** What is stored of a call: enough for the POST that Postern makes of it. */
export type StoredCall = { job_id: number; headers: Record<string, string>; body: string };

/** Says where this process listens, as Postern's own processes do, and ends when it is told to. */
export function announce(fields: Record<string, unknown>): void {
  console.log(JSON.stringify({ event: "service.started", ...fields }));
  process.once("SIGTERM", () => process.exit(0));
}
