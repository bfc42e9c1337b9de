import { z } from "zod";
import { UINT256_MAX } from "../ethereum/encoding.ts";
import {
  isJobName,
  type JobIds,
  jobKey,
  NOT_A_JOB_INDEX,
  NOT_A_SERVICE_ID,
  parseJobIndex,
  parseServiceId,
} from "../job-call/job-ids.ts";
import { type JobInput, toJobInput } from "../json-schema/job-input.ts";
import { callbackUrl } from "./callbacks-toml.ts";
import { isTable } from "./fields.ts";
import { readInputJson } from "./input-json.ts";
import { messageFor, type Problem, problem, problemsOf, report } from "./problem.ts";

export type JobPrice = JobIds & {
  priceWei: bigint;
  /** Whether what the runner answers is kept for the payer; it is unless this is false. */
  keepsResult?: boolean;
  /** Who is told of the end of each call. */
  callbackUrl?: string;
} & JobFacts;

/** What buyers may be told of a job beside its price. */
export type JobFacts = {
  /** No other job of the file has it. */
  name?: string;
  description?: string;
  /** What its body has to be; without it, anything. */
  input?: JobInput;
};

/** Every job that has a price, by `jobKey`. */
export type PriceList = ReadonlyMap<string, JobPrice>;

/**
 * Reads `job_pricing.toml`: every job whose price is right, without its keys that are wrong, and all problems. `dir` is where the
 * paths in it begin; without one a schema and its example can only be given as tables.
 */
export function parseJobPricing(
  table: unknown,
  dir?: string,
): { jobs: PriceList; problems: readonly Problem[] } {
  const rows = Object.entries(table as object).flatMap((entry) => parseService(entry, dir));
  const jobs = rows.filter((row) => "priceWei" in row);
  return {
    jobs: new Map(jobs.map((job) => [jobKey(job), job])),
    problems: [...rows.filter((row) => "message" in row), ...repeatedNames(jobs)],
  };
}

function repeatedNames(jobs: readonly JobPrice[]): Problem[] {
  const firsts = new Map<string, JobPrice>();
  return jobs.flatMap((job) => {
    const { serviceId, jobIndex, name } = job;
    const first = name === undefined ? undefined : firsts.get(name);
    if (name !== undefined && first === undefined) firsts.set(name, job);
    if (first === undefined) return [];
    return [problem([String(serviceId), String(jobIndex), "name"], `job ${jobKey(first)} has this name`)];
  });
}

const FORMS = '<job_index> = "<wei>" or <job_index> = { price_wei = "<wei>", ... }';

function parseService([service, prices]: [string, unknown], dir: string | undefined): (JobPrice | Problem)[] {
  const serviceId = parseServiceId(service);
  if (serviceId === undefined) return [{ path: [service], message: NOT_A_SERVICE_ID }];
  if (!isTable(prices))
    return [{ path: [service], message: `must be a table: [<service_id>], then ${FORMS}` }];
  return Object.entries(prices).flatMap(([job, value]): (JobPrice | Problem)[] => {
    const jobIndex = parseJobIndex(job);
    if (jobIndex === undefined) return [{ path: [service, job], message: NOT_A_JOB_INDEX }];
    const { found, problems } = isTable(value) ? parseJob(value, dir) : priced(value);
    return [
      ...(found === undefined ? [] : [{ serviceId, jobIndex, ...found }]),
      ...problems.map(({ path, message }) => problem([service, job, ...path], message)),
    ];
  });
}

/** A job without its keys that are wrong; absent if its price is. */
type Found = { found?: Omit<JobPrice, keyof JobIds>; problems: readonly Problem[] };

function priced(value: unknown): Found {
  const priceWei = parsePrice(value);
  return typeof priceWei === "string"
    ? { problems: [problem([], priceWei)] }
    : { found: { priceWei }, problems: [] };
}

const DECIMAL = /^(?:0|[1-9]\d*)$/;

const jobTable = z.strictObject({
  price_wei: z
    .unknown()
    .transform((value, context) => {
      const priceWei = value === undefined ? "is missing" : parsePrice(value);
      if (typeof priceWei !== "string") return priceWei;
      report(context, [problem([], priceWei)]);
      return z.NEVER;
    })
    .meta({ writtenAs: z.string().regex(DECIMAL) }),
  name: z
    .string()
    .refine(isJobName, "must be 1 to 32 lower-case letters, digits and hyphens, and no hyphen at an end")
    .optional(),
  description: z
    .string()
    .min(1)
    .max(256)
    .regex(/^[^\p{Cc}\p{Zl}\p{Zp}]*$/u, "must be one line of text")
    .optional(),
  input_schema: z.unknown().optional(),
  input_example: z.unknown().optional(),
  keep_result: z.boolean().default(true),
  callback_url: callbackUrl.optional(),
});

/** The form of the file, for editors; `parseJobPricing` checks more. */
export const jobPricingForm = z.record(
  z.string().regex(/^\d+$/),
  z.record(z.string().regex(/^\d+$/), z.union([z.string().regex(DECIMAL), jobTable])),
);

function parseJob(table: Readonly<Record<string, unknown>>, dir: string | undefined): Found {
  const { error } = jobTable.safeParse(table, { error: messageFor });
  const ofInput = parseInput(table["input_schema"], table["input_example"], dir);
  const problems = [...(error?.issues.flatMap(problemsOf) ?? []), ...ofInput.problems];
  const wrong = problems.map(({ path }) => path[0]);
  const right = Object.entries(table).filter(([key]) => !wrong.includes(key));
  const { data } = jobTable.safeParse(Object.fromEntries(right));
  if (data === undefined) return { problems };
  const {
    price_wei: priceWei,
    name,
    description,
    keep_result: keepsResult,
    callback_url: callbackUrl,
  } = data;
  return {
    found: {
      priceWei,
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
      ...(ofInput.input && { input: ofInput.input }),
      ...(!keepsResult && { keepsResult }),
      ...(callbackUrl !== undefined && { callbackUrl }),
    },
    problems,
  };
}

const KEYS = { schema: "input_schema", example: "input_example" } as const;

function parseInput(
  schema: unknown,
  example: unknown,
  dir: string | undefined,
): { input?: JobInput; problems: readonly Problem[] } {
  const at = (of: keyof typeof KEYS, message: string) => problem(KEYS[of], message);
  if (schema === undefined && example === undefined) return { problems: [] };
  if (schema === undefined) return { problems: [at("example", "says nothing without an input_schema")] };
  const read = { schema: readInputJson(schema, dir), example: readInputJson(example, dir) };
  const unread = (["schema", "example"] as const).flatMap((of) => {
    const { message } = read[of];
    return message === undefined ? [] : [at(of, message)];
  });
  if (unread.length > 0) return { problems: unread };
  const made = toJobInput(read.schema.json, read.example.json);
  return made.ok
    ? { input: made.input, problems: [] }
    : { problems: [at(made.problem.of, made.problem.message)] };
}

function parsePrice(price: unknown): bigint | string {
  if (typeof price === "number" || typeof price === "bigint") return 'must be quoted, as "1000000000000000"';
  if (typeof price !== "string" || !DECIMAL.test(price)) return 'must be whole wei, as "1000000000000000"';
  return priceProblem(BigInt(price)) ?? BigInt(price);
}

/** Why a job cannot have this price, in wei; undefined if it can. */
export function priceProblem(priceWei: bigint): string | undefined {
  if (priceWei <= 0n) return "must be above 0";
  return priceWei > UINT256_MAX ? "is above 2^256-1" : undefined;
}
