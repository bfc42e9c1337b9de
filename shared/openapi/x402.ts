import { platformKeys } from "../call/job-call.ts";
import { jobKey } from "../call/job-ids.ts";
import type { JobPrice } from "../config/job-pricing-toml.ts";
import type { X402Toml } from "../config/x402-toml.ts";
import { CODES } from "../platform/errors/codes.ts";
import type { Declared } from "../platform/json-schema/job-input.ts";
import { schemaWithin } from "../pricing/discovery.ts";
import { callPaths, RUNNERS_ANSWER } from "./call-operations.ts";
import {
  type Components,
  type Header,
  headersOf,
  type Json,
  noComponents,
  type Refusal,
  refusalsOf,
  schemaOf,
  toComponents,
} from "./document.ts";
import { toPaymentInfo } from "./payment-info.ts";
import { JobProblem, PaidAnswer, PaymentRequiredAnswer } from "./x402-answers.ts";
import { ANY_BODY, discoveryPaths, IDS, JOB, jobPaths, PAYER, receiptPaths } from "./x402-paths.ts";
import { PURCHASE_REFUSALS, UNCHARGED } from "./x402-refusals.ts";

/** The parts of the configuration that anyone may see in the gateway's documents. */
export type Catalog = {
  x402: Pick<X402Toml, "public_url" | "shop" | "accepted_tokens" | "job_policies" | "receipt_keys">;
  /** The jobs for sale, in the order of the configuration. */
  jobs: readonly JobPrice[];
  metadataPrefix: string;
  /** The version of the program. */
  version: string;
};

/** Number of jobs that have a path of their own in the document. `GET /x402` lists all jobs. */
export const JOBS_SHOWN = 100;

const TAGS = [
  { name: "jobs", description: "Buying jobs." },
  { name: "calls", description: "The calls of bought jobs." },
  { name: "discovery", description: "Documents about what is for sale." },
];

/** Builds the OpenAPI document of a payment gateway. It depends only on the configuration. */
export function toX402OpenApi(catalog: Catalog) {
  const { x402, jobs, version } = catalog;
  const components: Components & { responses: Record<string, unknown> } = {
    ...noComponents(),
    responses: {},
  };
  const url = x402.public_url;
  const responses = namedResponses("Buy", buyResponses(components), components.responses);
  const shown = jobs.slice(0, JOBS_SHOWN);
  const paths = {
    ...Object.fromEntries(
      shown.map((job) => [
        `/x402/jobs/${jobKey(job)}`,
        { post: toPurchase(job, catalog, responses, components) },
      ]),
    ),
    ...(jobs.length > shown.length && { [JOB]: { post: anyPurchase(responses) } }),
    ...jobPaths(components),
    ...callPaths({ name: "x402", ...PAYER }, components),
    ...(x402.receipt_keys && receiptPaths(components)),
    ...discoveryPaths(components),
  };
  return {
    openapi: "3.1.0" as const,
    info: {
      title: x402.shop.name,
      version,
      description:
        "Jobs that are paid for by x402. Answers may get new members. Members are never renamed or removed.",
      license: { name: "MIT", identifier: "MIT" },
      contact: { name: x402.shop.name, url },
      "x-guidance": guidanceOf(url),
    },
    servers: [{ url }],
    security: [],
    tags: TAGS,
    "x-service-info": {
      categories: x402.shop.tags.length > 0 ? x402.shop.tags : ["compute"],
      docs: { homepage: url, apiReference: `${url}/openapi.json`, llms: `${url}/llms.txt` },
    },
    "x-agentcash-guidance": { llmsTxtUrl: `${url}/llms.txt` },
    paths,
    components: {
      ...toComponents(components),
      responses: components.responses,
      securitySchemes: {
        result_token: { type: "http", scheme: "bearer", description: "The result_token of a 202." },
        sign_in: {
          ...{ type: "apiKey", in: "header", name: "SIGN-IN-WITH-X", "x-agentcash-auth-kind": "siwx" },
          description: "A sign-in as the payer, with the nonce of the 402.",
        },
      },
    },
  };
}

/** Explains in a few sentences how to buy a job. */
export function guidanceOf(url: string): string {
  return [
    "POST the job's input without a payment: the 402 has the offers of x402 versions 1 and 2, at the current price.",
    "Pay one offer and send the same request again. The 202 has the call's status_url, and a result_token for result_url.",
    "Send `Prefer: wait=30` to get the result in the same answer.",
    "After an answer that is lost or a 503, send the same payment again: it is charged once.",
    `The jobs with their prices are at ${url}/x402.`,
  ].join(" ");
}

function toBuyRefusal(status: number): Refusal {
  if (status === 402 || status === 412)
    return { schema: PaymentRequiredAnswer, headers: ["PAYMENT-REQUIRED"] };
  if (status === 503) return { schema: JobProblem, headers: ["Retry-After", "Location"] };
  // The job was paid for, but its call has ended without a result.
  if (status === 410 || status === 502) return { schema: JobProblem, headers: WITH_RESULT };
  return { schema: JobProblem, also: SAYS_UNCHARGED.has(status) ? SETTLEMENT : [] };
}

/** The statuses of refusals that may have a header which says that nothing was charged (`unchargedHeaders`). */
const SAYS_UNCHARGED = new Set<number>(UNCHARGED.map((code) => CODES[code].status));

const SETTLEMENT: readonly Header[] = ["PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"];
const PAID: readonly Header[] = [...SETTLEMENT, "Idempotent-Replayed"];
const WITH_RESULT: readonly Header[] = [...PAID, "Preference-Applied", "Content-Location"];

/** The answers to a purchase. They are the same for every job. */
function buyResponses(components: Components): Record<string, Json> {
  return {
    "202": {
      description: "The job is paid for, and its call is on disk.",
      ...headersOf([...PAID, "Location"], components),
      content: { "application/json": { schema: schemaOf(PaidAnswer, "output", components) } },
    },
    "2XX": {
      ...RUNNERS_ANSWER,
      ...headersOf(WITH_RESULT, components),
    },
    ...refusalsOf([...PURCHASE_REFUSALS, "result.gone", "result.call_failed"], components, toBuyRefusal),
  };
}

/** Adds the responses to the components, and returns references to them, so that all jobs share them. */
function namedResponses(
  prefix: string,
  responses: Record<string, Json>,
  among: Record<string, unknown>,
): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      among[`${prefix}${status}`] = response;
      return [status, { $ref: `#/components/responses/${prefix}${status}` }];
    }),
  );
}

function toPurchase(
  job: JobPrice,
  catalog: Catalog,
  responses: Record<string, Json>,
  components: Components,
): Json {
  const { serviceId, jobIndex, name, description, input, output } = job;
  const { x402, metadataPrefix } = catalog;
  const policy = x402.job_policies.find(
    (each) => each.service_id === serviceId && each.job_index === jobIndex,
  );
  const isRestricted = policy?.invocation_mode === "restricted_paid";
  const isDelegated = isRestricted && policy.auth_mode === "delegated_caller_signature";
  return {
    operationId: `buyJob_${serviceId}_${jobIndex}`,
    tags: ["jobs"],
    summary: name ?? `Job ${jobIndex} of service ${serviceId}`,
    description: [
      ...(description === undefined ? [] : [description]),
      `The 402 and GET ${x402.public_url}/x402/jobs/${jobKey(job)}/price have the current price.`,
      ...(isRestricted ? ["Only for callers that a contract permits."] : []),
    ].join("\n\n"),
    security: [],
    "x-payment-info": toPaymentInfo(job, x402.accepted_tokens),
    ...(isDelegated && { parameters: callerHeaders(metadataPrefix) }),
    requestBody: input === undefined ? ANY_BODY : toBody(job, input, components),
    responses: output === undefined ? responses : { ...responses, "200": toResult(job, output, components) },
  };
}

/** Describes the purchase of a job that has no path of its own in the document. */
function anyPurchase(responses: Record<string, Json>): Json {
  return {
    ...{ operationId: "buyJob", tags: ["jobs"], summary: "Buy any other job of GET /x402." },
    "x-payment-info": { price: { mode: "dynamic" }, protocols: [{ x402: {} }], offers: [ANY_OFFER] },
    ...{ security: [], parameters: IDS, requestBody: ANY_BODY, responses },
  };
}

const ANY_OFFER = { intent: "charge", method: "x402", amount: null };

/**
 * Limit on the length of a job's schema in the document. A longer schema is left out, and can be read only at the job's path
 * `/schema`.
 */
const SCHEMA_BYTES_MAX = 16 * 1024;
/**
 * Finds JSON-schema keywords for anchors, which are names of places in a document. Schemas with anchors are left out, because two
 * jobs may use the same name.
 */
const ANCHORS = /"\$(?:anchor|dynamicAnchor|dynamicRef|recursiveAnchor)"/;

function toBody(job: JobPrice, input: Declared, components: Components): Json {
  return {
    description: `The job's input. Its schema is at /x402/jobs/${jobKey(job)}/schema.`,
    required: true,
    content: { "application/json": toMedia(`Job_${job.serviceId}_${job.jobIndex}`, input, components) },
  };
}

/** The job's result, as the operator describes it. */
function toResult(job: JobPrice, output: Declared, components: Components): Json {
  return {
    description: "The job's result, with `Prefer: wait`.",
    ...headersOf(WITH_RESULT, components),
    content: { "application/json": toMedia(`Result_${job.serviceId}_${job.jobIndex}`, output, components) },
  };
}

/**
 * Returns OpenAPI's media type object for a job's input or result. The schema becomes a component, unless it is too large or
 * cannot be part of the document.
 */
function toMedia(name: string, { schema, example }: Declared, components: Components): Json {
  const place = `#/components/schemas/${name}`;
  const text = JSON.stringify(schema);
  const moved =
    text.length > SCHEMA_BYTES_MAX || ANCHORS.test(text) ? undefined : schemaWithin(schema, place);
  if (moved !== undefined) components.schemas[name] = moved;
  return { schema: moved === undefined ? {} : { $ref: place }, example };
}

/** Describes the headers of a caller's proof, which a client sends if the caller of the job is not its payer. */
function callerHeaders(metadataPrefix: string): Json[] {
  const { caller } = platformKeys(metadataPrefix);
  const described = {
    "": "Address of the caller.",
    "-NONCE": "Used once.",
    "-EXPIRY": "Unix seconds.",
    "-SIG": "The caller's signature.",
  };
  return Object.entries(described).map(([part, description]) => ({
    ...{ name: `${caller}${part}`, in: "header", required: false, description },
    schema: { type: "string" },
  }));
}
