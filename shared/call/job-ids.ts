/** The two numbers that name a job. */
export type JobIds = { serviceId: number; jobIndex: number };

export const JOB_INDEX_MAX = 2 ** 32 - 1;

/** A job's key: the two ids as they stand in its path. */
export function jobKey({ serviceId, jobIndex }: { [Id in keyof JobIds]: number | bigint }): string {
  return `${serviceId}/${jobIndex}`;
}

/** The key of the job that a call is for. */
export function jobKeyOf({ service_id, job_id }: { service_id: number; job_id: number }): string {
  return jobKey({ serviceId: service_id, jobIndex: job_id });
}

/** The two ids in a job's key. */
export function idsOfKey(key: string): JobIds {
  const [serviceId = Number.NaN, jobIndex = Number.NaN] = key.split("/").map(Number);
  return { serviceId, jobIndex };
}

const SERVICE_ID_MAX = Number.MAX_SAFE_INTEGER;

/** A service id, in the one form that it has in a path. */
export function parseServiceId(text: string): number | undefined {
  return parseId(text, SERVICE_ID_MAX);
}

/** A job index, in the one form that it has in a path. */
export function parseJobIndex(text: string): number | undefined {
  return parseId(text, JOB_INDEX_MAX);
}

function parseId(text: string, max: number): number | undefined {
  return /^(?:0|[1-9]\d*)$/.test(text) && Number(text) <= max ? Number(text) : undefined;
}

/** It is also the `serviceName` of an x402 resource, which has 32 printable ASCII characters at most. */
const JOB_NAME = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

/** Whether a job may have this name, which buyers give on a command line. */
export function isJobName(text: string): boolean {
  return JOB_NAME.test(text);
}

export const NOT_A_SERVICE_ID = "must be a service id from 0 to 2^53-1, in decimal, without leading zeros";
export const NOT_A_JOB_INDEX = "must be a job index from 0 to 2^32-1, in decimal, without leading zeros";

/** Why this text is not a job's key; undefined if it is one. A job of webhooks may have a greater index than one that is sold. */
export function whyNoJobKey(text: string): string | undefined {
  const [service = "", job, ...more] = text.split("/");
  if (job === undefined || more.length > 0) return "must be <service id>/<job index>, such as 7/1";
  const range = "from 0 to 2^53-1, in decimal, without leading zeros, not";
  if (parseServiceId(service) === undefined)
    return `must have a service id ${range} ${JSON.stringify(service)}`;
  if (parseId(job, Number.MAX_SAFE_INTEGER) !== undefined) return undefined;
  return `must have a job index ${range} ${JSON.stringify(job)}`;
}
