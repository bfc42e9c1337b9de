/** The two numbers that identify a job. */
export type JobIds = { serviceId: number; jobIndex: number };

export const JOB_INDEX_MAX = 2 ** 32 - 1;

/** Returns a job's key: `<service id>/<job index>`. */
export function jobKey({ serviceId, jobIndex }: { [Id in keyof JobIds]: number | bigint }): string {
  return `${serviceId}/${jobIndex}`;
}

/** Returns the key of the job of a call. */
export function jobKeyOf({ service_id, job_id }: { service_id: number; job_id: number }): string {
  return jobKey({ serviceId: service_id, jobIndex: job_id });
}

/** Parses a job's key into its two ids. */
export function idsOfKey(key: string): JobIds {
  const [serviceId = Number.NaN, jobIndex = Number.NaN] = key.split("/").map(Number);
  return { serviceId, jobIndex };
}

const SERVICE_ID_MAX = Number.MAX_SAFE_INTEGER;

/** Parses a service id in decimal, without leading zeros. Returns undefined for any other text, and above the maximum. */
export function parseServiceId(text: string): number | undefined {
  return parseId(text, SERVICE_ID_MAX);
}

/** Parses a job index in decimal, without leading zeros. Returns undefined for any other text, and above the maximum. */
export function parseJobIndex(text: string): number | undefined {
  return parseId(text, JOB_INDEX_MAX);
}

function parseId(text: string, max: number): number | undefined {
  return /^(?:0|[1-9]\d*)$/.test(text) && Number(text) <= max ? Number(text) : undefined;
}

/**
 * Pattern of a job's name. The name is also the `serviceName` of an x402 resource, which has at most 32 printable ASCII
 * characters.
 */
const JOB_NAME = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

/** Returns whether a job may have this name, which buyers give on a command line. */
export function isJobName(text: string): boolean {
  return JOB_NAME.test(text);
}

export const NOT_A_SERVICE_ID = "must be a service id from 0 to 2^53-1, in decimal, without leading zeros";
export const NOT_A_JOB_INDEX = "must be a job index from 0 to 2^32-1, in decimal, without leading zeros";

/**
 * Returns why this text is not a job's key; undefined if it is one. The index may exceed JOB_INDEX_MAX, because this limit
 * applies only to jobs that are sold.
 */
export function whyNoJobKey(text: string): string | undefined {
  const [service = "", job, ...more] = text.split("/");
  if (job === undefined || more.length > 0) return "must be <service id>/<job index>, such as 7/1";
  const range = "from 0 to 2^53-1, in decimal, without leading zeros, not";
  if (parseServiceId(service) === undefined)
    return `must have a service id ${range} ${JSON.stringify(service)}`;
  if (parseId(job, Number.MAX_SAFE_INTEGER) !== undefined) return undefined;
  return `must have a job index ${range} ${JSON.stringify(job)}`;
}
