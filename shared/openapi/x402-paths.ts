import { CALLBACK_KEYS_PATH } from "../call/callback.ts";
import { JOB_INDEX_MAX } from "../call/job-ids.ts";
import { RECEIPT_KEYS_PATH } from "../payments/receipt.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { ResultProblem } from "./call-answers.ts";
import { CALL_PARAMETERS } from "./call-operations.ts";
import { type Components, headersOf, type Json, type Refusal, refusalsOf, schemaOf } from "./document.ts";
import { COMMON_REFUSALS, READS_REDIS } from "./refusals.ts";
import {
  JobListAnswer,
  JobProblem,
  PermissionAnswer,
  PriceAnswer,
  SignedReceiptAnswer,
  SignInRequired,
  WellKnownAnswer,
} from "./x402-answers.ts";
import { JOB_REFUSALS, PURCHASE_REFUSALS } from "./x402-refusals.ts";

/** The path of any job. */
export const JOB = "/x402/jobs/{service_id}/{job_index}";
export const IDS = [
  { name: "service_id", max: Number.MAX_SAFE_INTEGER },
  { name: "job_index", max: JOB_INDEX_MAX },
].map(({ name, max }) => ({
  ...{ name, in: "path", required: true },
  schema: { type: "integer", format: "int64", minimum: 0, maximum: max },
}));

/** The request body of a job that declares no schema. */
export const ANY_BODY = {
  description: "Any bytes.",
  required: false,
  content: { "application/json": { schema: {} }, "*/*": { schema: {} } },
};

/** The operations on a job that need no payment. */
export function jobPaths(components: Components): Record<string, Json> {
  const free = (operationId: string, summary: string) => ({
    ...{ operationId, tags: ["jobs"], summary, security: [], parameters: IDS },
  });
  const asJob = (): Refusal => ({ schema: JobProblem });
  return {
    [`${JOB}/price`]: {
      get: {
        ...free("getPrice", "Show what a job costs now."),
        responses: {
          "200": json("The price in wei and in each token.", PriceAnswer, components),
          ...refusalsOf(
            [...COMMON_REFUSALS, ...JOB_REFUSALS, "price.unavailable", "payment.unavailable"],
            components,
            asJob,
          ),
        },
      },
    },
    [`${JOB}/schema`]: {
      get: {
        ...free("getSchema", "Show the JSON Schema of a job's input."),
        responses: {
          "200": {
            description: "The schema.",
            content: { "application/schema+json": { schema: { type: "object" } } },
          },
          ...refusalsOf([...COMMON_REFUSALS, ...JOB_REFUSALS, "payment.unavailable"], components, asJob),
        },
      },
    },
    [`${JOB}/auth-dry-run`]: {
      post: {
        ...free("tryJob", "Check whether this caller may buy a job. Charges nothing."),
        requestBody: ANY_BODY,
        responses: {
          "200": json("The caller may buy the job.", PermissionAnswer, components),
          ...refusalsOf(PURCHASE_REFUSALS, components, (status) =>
            status === 503 ? { schema: JobProblem, headers: ["Retry-After", "Location"] } : asJob(),
          ),
        },
      },
    },
  };
}

const KEY_SET = {
  description: "A JSON Web Key Set.",
  content: { "application/jwk-set+json": { schema: { type: "object" } } },
};

function json(description: string, schema: Parameters<typeof schemaOf>[0], components: Components) {
  return { description, content: { "application/json": { schema: schemaOf(schema, "output", components) } } };
}

/** The public operations: the lists of jobs, `/openapi.json`, `/llms.txt` and the public keys of callbacks. */
export function discoveryPaths(components: Components): Record<string, Json> {
  const refusals = (...codes: ErrorCode[]) => refusalsOf([...COMMON_REFUSALS, ...codes], components);
  const free = (operationId: string, summary: string) => ({
    ...{ operationId, tags: ["discovery"], summary, security: [] },
  });
  const cached = headersOf(["ETag"], components);
  const document = (description: string, content: Json) => ({
    "200": { description, ...cached, content },
    "304": { description: "The document is the one that the client has.", ...cached },
    ...refusals(),
  });
  const page = { name: "page", in: "query", required: false, schema: { type: "integer", minimum: 1 } };
  return {
    "/x402": {
      get: {
        ...free("listJobs", "List the jobs that are for sale, a hundred a page."),
        parameters: [page],
        responses: {
          "200": json("The jobs.", JobListAnswer, components),
          ...refusals("request.not_found"),
        },
      },
    },
    "/openapi.json": {
      get: {
        ...free("getOpenApi", "Show this document."),
        responses: document("An OpenAPI 3.1 document.", {
          "application/json": { schema: { type: "object" } },
        }),
      },
    },
    "/.well-known/x402": {
      get: {
        ...free("getWellKnown", "List the URLs of the jobs that are for sale."),
        responses: document("The URLs.", {
          "application/json": { schema: schemaOf(WellKnownAnswer, "output", components) },
        }),
      },
    },
    "/llms.txt": {
      get: {
        ...free("getLlmsTxt", "Describe the shop in Markdown."),
        responses: document("The description.", { "text/markdown": { schema: { type: "string" } } }),
      },
    },
    [CALLBACK_KEYS_PATH]: {
      get: {
        ...free("getCallbackKeys", "Show the public keys of callbacks (RFC 7517)."),
        responses: {
          "200": KEY_SET,
          ...refusals("queue.unavailable", "queue.denied", "record.unreadable"),
        },
      },
    },
  };
}

/** The ways in which the payer of a call authenticates: a result token or a sign-in. */
export const PAYER = {
  security: [{ result_token: [] }, { sign_in: [] }],
  unauthenticated: ["result.sign_in_required", "result.sign_in_unavailable", "request.rate_limited"],
  unauthenticatedAs: (status: number): Refusal =>
    status === 402 ? { schema: SignInRequired, headers: ["PAYMENT-REQUIRED"] } : {},
} as const;

/** The paths that only a gateway with receipt keys has. */
export function receiptPaths(components: Components): Record<string, Json> {
  const { security, unauthenticated, unauthenticatedAs } = PAYER;
  return {
    [RECEIPT_KEYS_PATH]: {
      get: {
        ...{ operationId: "getReceiptKeys", tags: ["discovery"], security: [] },
        summary: "Show the public keys of receipts (RFC 7517).",
        responses: { "200": KEY_SET, ...refusalsOf(COMMON_REFUSALS, components) },
      },
    },
    "/x402/calls/{call_id}/receipt": {
      get: {
        ...{ operationId: "getCallReceipt", tags: ["calls"], security, parameters: CALL_PARAMETERS },
        summary: "Show the receipt of a call's result.",
        responses: {
          "200": json("The receipt.", SignedReceiptAnswer, components),
          ...refusalsOf(
            [
              ...COMMON_REFUSALS,
              ...READS_REDIS,
              "result.pending",
              "result.none_kept",
              "result.gone",
              ...unauthenticated,
            ],
            components,
            (status) =>
              status === 404
                ? { schema: ResultProblem, headers: ["Retry-After"] }
                : unauthenticatedAs(status),
          ),
        },
      },
    },
  };
}
