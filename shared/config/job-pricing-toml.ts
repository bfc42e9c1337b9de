import { z } from "zod";
import {
  type JobIds,
  jobKey,
  NOT_A_JOB_INDEX,
  NOT_A_SERVICE_ID,
  parseJobIndex,
  parseServiceId,
} from "../call/job-ids.ts";
import { UINT256_MAX } from "../chain/encoding.ts";
import { type JobInput, toJobInput } from "../platform/json-schema/job-input.ts";
import { callbackUrl } from "./callbacks-toml.ts";
import { isTable, jobName } from "./fields.ts";
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

/** A job as it is written: where, its ids unless they are wrong, and its price or its table. */
export type WrittenJob = { path: readonly PropertyKey[]; ids: JobIds | undefined; value: unknown };

/** A job without those of its keys that are wrong, which the price and the ids may be. */
export type ReadJob = Pick<WrittenJob, "path" | "ids"> & Partial<Omit<JobPrice, keyof JobIds>>;

type ParsedJobs = {
  /** Every job whose price and ids are right. */
  jobs: PriceList;
  /** Every job, for rules that read no price. */
  read: readonly ReadJob[];
  problems: readonly Problem[];
};

/**
 * Reads `job_pricing.toml`, and all that is wrong with it. `dir` is where the paths in it begin; without one a schema and its example can
 * only be given as tables.
 */
export function parseJobPricing(table: unknown, dir?: string): ParsedJobs {
  const rows = Object.entries(table as object).flatMap(writtenOf);
  const { problems, ...found } = parseJobs(
    rows.filter((row) => "value" in row),
    dir,
  );
  return { ...found, problems: [...rows.filter((row) => "message" in row), ...problems] };
}

/** The same of jobs in any order. Of several with the same ids the last one counts. */
export function parseJobs(written: readonly WrittenJob[], dir?: string): ParsedJobs {
  const parsed = written.map(({ value, ...job }) => ({ job, ...parseJob(value, dir) }));
  const read = parsed.map(({ job, found }): ReadJob => ({ ...job, ...found }));
  const jobs = read.flatMap(({ path: _, ids, priceWei, ...facts }): JobPrice[] =>
    ids === undefined || priceWei === undefined ? [] : [{ ...ids, priceWei, ...facts }],
  );
  return {
    jobs: new Map(jobs.map((job) => [jobKey(job), job])),
    read,
    problems: [
      ...parsed.flatMap(({ job, problems }) =>
        problems.map(({ path, message }) => problem([...job.path, ...path], message)),
      ),
      ...repeatedNames(read),
    ],
  };
}

function repeatedNames(jobs: readonly ReadJob[]): Problem[] {
  const firsts = new Map<string, JobIds>();
  return jobs.flatMap(({ path, ids, name }) => {
    if (name === undefined || ids === undefined) return [];
    const first = firsts.get(name);
    if (first !== undefined)
      return [problem([...path, "name"], `must be unique: job ${jobKey(first)} has this name`)];
    firsts.set(name, ids);
    return [];
  });
}

const FORMS = '<job_index> = "<wei>" or <job_index> = { price_wei = "<wei>", ... }';

/** The jobs of a service's table, and the names in it that are no ids. */
function writtenOf([service, prices]: [string, unknown]): (WrittenJob | Problem)[] {
  const serviceId = parseServiceId(service);
  const ofService = serviceId === undefined ? [problem([service], NOT_A_SERVICE_ID)] : [];
  if (!isTable(prices))
    return serviceId === undefined
      ? ofService
      : [problem([service], `must be a table: [<service_id>], then ${FORMS}`)];
  const rows = Object.entries(prices).flatMap(([job, value]): (WrittenJob | Problem)[] => {
    const path = [service, job];
    const jobIndex = parseJobIndex(job);
    const ids = serviceId === undefined || jobIndex === undefined ? undefined : { serviceId, jobIndex };
    return [
      ...(jobIndex === undefined ? [problem(path, NOT_A_JOB_INDEX)] : []),
      ...(jobIndex !== undefined || isTable(value) ? [{ path, ids, value }] : []),
    ];
  });
  return [...ofService, ...rows];
}

/** What of a job is right, and what is wrong. */
type ParsedJob = { found: Partial<Omit<JobPrice, keyof JobIds>>; problems: readonly Problem[] };

function priced(value: unknown): ParsedJob {
  const priceWei = parsePrice(value);
  return typeof priceWei === "string"
    ? { found: {}, problems: [problem([], priceWei)] }
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
  name: jobName.optional(),
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

/** The same without the price, which may be wrong. */
const jobFacts = jobTable.omit({ price_wei: true });

/** The form of the file, for editors; `parseJobPricing` checks more. */
export const jobPricingForm = z.record(
  z.string().regex(/^\d+$/),
  z.record(z.string().regex(/^\d+$/), z.union([z.string().regex(DECIMAL), jobTable])),
);

function parseJob(table: unknown, dir: string | undefined): ParsedJob {
  if (!isTable(table)) return priced(table);
  const { error } = jobTable.safeParse(table, { error: messageFor });
  const ofInput = parseInput(table["input_schema"], table["input_example"], dir);
  const problems = [...(error?.issues.flatMap(problemsOf) ?? []), ...ofInput.problems];
  const wrong = problems.map(({ path }) => path[0]);
  const { price_wei: price, ...right } = Object.fromEntries(
    Object.entries(table).filter(([key]) => !wrong.includes(key)),
  );
  const { name, description, keep_result: keepsResult, callback_url: callbackUrl } = jobFacts.parse(right);
  const priceWei = parsePrice(price);
  return {
    found: {
      ...(typeof priceWei === "bigint" && { priceWei }),
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
  if (schema === undefined) return { problems: [at("schema", "is missing: input_example needs it")] };
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
  if (typeof price === "number" || typeof price === "bigint")
    return 'must be quoted, such as "1000000000000000"';
  if (typeof price !== "string" || !DECIMAL.test(price))
    return 'must be an integer in wei, such as "1000000000000000"';
  return priceProblem(BigInt(price)) ?? BigInt(price);
}

/** Why a job cannot have this price, in wei; undefined if it can. */
export function priceProblem(priceWei: bigint): string | undefined {
  if (priceWei <= 0n) return "must be above 0";
  return priceWei > UINT256_MAX ? "must be at most 2^256-1" : undefined;
}
