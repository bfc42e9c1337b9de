/** The two numbers that name a job. */
export type JobIds = { serviceId: number; jobIndex: number };

export const JOB_INDEX_MAX = 2 ** 32 - 1;

/** A job's key: the two ids as they stand in its path. */
export function jobKey({ serviceId, jobIndex }: { [Id in keyof JobIds]: number | bigint }): string {
  return `${serviceId}/${jobIndex}`;
}
