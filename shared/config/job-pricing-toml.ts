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
import {
  compileDeclared,
  DECLARED_BYTES_MAX,
  type Declared,
  declaredBytes,
  type JobInput,
} from "../platform/json-schema/job-input.ts";
import { callbackUrl } from "./callbacks-toml.ts";
import { readDeclaredJson } from "./declared-json.ts";
import { isTable, jobName } from "./fields.ts";
import { messageFor, type Problem, problem, problemsOf, report } from "./problem.ts";

export type JobPrice = JobIds & {
  priceWei: bigint;
  /** Whether the runner's answer is kept for the payer; true by default. */
  keepsResult?: boolean;
  /** Receiver of a callback at the end of each call. */
  callbackUrl?: string;
} & JobFacts;

/** Facts about a job, besides its price, that buyers can see. */
export type JobFacts = {
  /** Name of the job, which is unique in the file. */
  name?: string;
  description?: string;
  /** Schema and example of its body. Without it, any body is accepted. */
  input?: JobInput;
  /** Schema and example of its result. Nothing checks a result. */
  output?: Declared;
};

/** All jobs with a price, by `jobKey`. */
export type PriceList = ReadonlyMap<string, JobPrice>;

/** A job in the file: its place, its ids unless they are invalid, and its price or table. */
export type WrittenJob = { path: readonly PropertyKey[]; ids: JobIds | undefined; value: unknown };

/** A job without its invalid keys. If its price or ids are invalid, they are missing too. */
export type ReadJob = Pick<WrittenJob, "path" | "ids"> & Partial<Omit<JobPrice, keyof JobIds>>;

type ParsedJobs = {
  /** All jobs with a valid price and valid ids. */
  jobs: PriceList;
  /** All jobs, for rules that do not read the price. */
  read: readonly ReadJob[];
  problems: readonly Problem[];
};

/**
 * Reads `job_pricing.toml`, and finds all of its problems. Relative paths in it begin at `dir`. Without `dir`, a
 * schema and its example can only be given as tables.
 */
export function parseJobPricing(table: unknown, dir?: string): ParsedJobs {
  const rows = Object.entries(table as object).flatMap(writtenOf);
  const { problems, ...found } = parseJobs(
    rows.filter((row) => "value" in row),
    dir,
  );
  return { ...found, problems: [...rows.filter((row) => "message" in row), ...problems] };
}

/** Reads jobs in any order. If several have the same ids, the last one counts. */
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

/** Returns the jobs of a service's table, and a problem for each name in it that is not an id. */
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

/** The valid keys of a job, and its problems. */
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
  output_schema: z.unknown().optional(),
  output_example: z.unknown().optional(),
  keep_result: z.boolean().default(true),
  callback_url: callbackUrl.optional(),
});

/** The table without the price. It can still be parsed if the price is invalid. */
const jobFacts = jobTable.omit({ price_wei: true });

/** Form of the file, for the JSON schema that editors use. `parseJobPricing` checks more than this form. */
export const jobPricingForm = z.record(
  z.string().regex(/^\d+$/),
  z.record(z.string().regex(/^\d+$/), z.union([z.string().regex(DECIMAL), jobTable])),
);

function parseJob(table: unknown, dir: string | undefined): ParsedJob {
  if (!isTable(table)) return priced(table);
  const { error } = jobTable.safeParse(table, { error: messageFor });
  const [input, output] = [parseDeclared("input", table, dir), parseDeclared("output", table, dir)];
  const problems = [
    ...(error?.issues.flatMap(problemsOf) ?? []),
    ...[...input.problems, ...output.problems],
    ...tooLong(input.declared, output.declared),
  ];
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
      ...(input.declared && { input: input.declared }),
      ...(output.declared && { output: output.declared }),
      ...(!keepsResult && { keepsResult }),
      ...(callbackUrl !== undefined && { callbackUrl }),
    },
    problems,
  };
}

/** Reads the schema of a job's input or output, and the example, which must match the schema. */
function parseDeclared(
  side: "input" | "output",
  table: Readonly<Record<string, unknown>>,
  dir: string | undefined,
): { declared?: JobInput; problems: readonly Problem[] } {
  const [schema, example] = [table[`${side}_schema`], table[`${side}_example`]];
  const at = (of: "schema" | "example", message: string) => problem(`${side}_${of}`, message);
  if (schema === undefined && example === undefined) return { problems: [] };
  if (schema === undefined) return { problems: [at("schema", `is missing: ${side}_example needs it`)] };
  const read = { schema: readDeclaredJson(schema, dir), example: readDeclaredJson(example, dir) };
  const unread = (["schema", "example"] as const).flatMap((of) => {
    const { message } = read[of];
    return message === undefined ? [] : [at(of, message)];
  });
  if (unread.length > 0) return { problems: unread };
  const made = compileDeclared(read.schema.json, read.example.json);
  return made.ok
    ? { declared: made.compiled, problems: [] }
    : { problems: [at(made.problem.of, made.problem.message)] };
}

/**
 * Reports a job whose declared input and output are together too long for a 402, the answer that shows them to buyers.
 * If the job has no output, nothing is reported: an input that is too long is left out of the 402, but its schema still
 * checks bodies.
 */
function tooLong(input: JobInput | undefined, output: Declared | undefined): Problem[] {
  const bytes = declaredBytes(input) + declaredBytes(output);
  if (output === undefined || bytes <= DECLARED_BYTES_MAX) return [];
  const message = `is too long: schemas and examples of input and output have ${bytes} bytes together as JSON, and a 402 has room for ${DECLARED_BYTES_MAX}. Shorten them, or remove output_schema and output_example`;
  return [problem("output_schema", message)];
}

function parsePrice(price: unknown): bigint | string {
  if (typeof price === "number" || typeof price === "bigint")
    return 'must be quoted, such as "1000000000000000"';
  if (typeof price !== "string" || !DECIMAL.test(price))
    return 'must be an integer in wei, such as "1000000000000000"';
  return priceProblem(BigInt(price)) ?? BigInt(price);
}

/** Returns the reason why a job cannot have this price, in wei; undefined if it can. */
export function priceProblem(priceWei: bigint): string | undefined {
  if (priceWei <= 0n) return "must be above 0";
  return priceWei > UINT256_MAX ? "must be at most 2^256-1" : undefined;
}
