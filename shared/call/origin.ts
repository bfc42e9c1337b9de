/** Origins of the calls that run jobs. */
export const JOB_ORIGINS = ["webhook", "x402"] as const;
/** All origins. A callback reports the end of a job's call (callback.ts). */
export const ORIGINS = [...JOB_ORIGINS, "callback"] as const;
export type Origin = (typeof ORIGINS)[number];
