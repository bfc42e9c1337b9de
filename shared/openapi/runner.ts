import type { z } from "zod";
import type { ErrorCode } from "../platform/errors/codes.ts";
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
import { COMMON_REFUSALS } from "./refusals.ts";
import {
  CallsAnswer,
  JobsAnswer,
  ListedCall,
  ListedState,
  ReadinessAnswer,
  StoredAnswer,
} from "./runner-answers.ts";

const header = (name: string, required: boolean, description: string) => ({
  ...{ name, in: "header", required, description },
  schema: { type: "string" },
});

const query = (name: string, schema: Json) => ({ name, in: "query", required: false, schema });

const CALL_ID = {
  ...{ name: "call_id", in: "path", required: true },
  schema: { type: "string", pattern: "^[!-~]{1,128}$" },
};

const INT64 = { type: "integer", format: "int64" };

const SIGNED = [
  header("Content-Digest", true, "SHA-256 of the body (RFC 9530)."),
  header("Signature-Input", false, "With a secret: the signed components (RFC 9421)."),
];

const ANY_CONTENT = { "*/*": { schema: {} } };

const SIGNATURE = [{}, { signature: [] }];

/**
 * Leaves the header WWW-Authenticate, which asks for a token, out of a 401. Requests to a runner are signed and carry no token.
 */
const withoutTokenHint = (status: number): Refusal => (status === 401 ? { headers: [] } : {});

const CONTRACT = "contract";
const REFERENCE = "reference runner";

const TAGS = [
  { name: CONTRACT, description: "A producer needs these of every runner." },
  { name: REFERENCE, description: "Only the reference runner has these. No producer needs them." },
];

/** Builds the OpenAPI document of the contract that every runner implements, for code generators and for runners in any language. */
export function toRunnerOpenApi({ version }: { version: string }) {
  const components = noComponents();
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Postern runner",
      version,
      description: "A runner is an HTTP server with numbered jobs. A producer sends it each call.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The url of [runner] in postern.toml" }],
    security: [],
    tags: TAGS,
    paths: {
      "/jobs/{job_id}": { post: runJob(components) },
      "/livez": { get: LIVEZ },
      ...referencePaths(components),
    },
    components: {
      ...toComponents(components),
      securitySchemes: {
        signature: {
          ...{ type: "apiKey", in: "header", name: "Signature" },
          description: "HTTP Message Signature (RFC 9421), hmac-sha256, labelled and tagged `postern`.",
        },
      },
    },
  };
}

const REPLAYED: readonly Header[] = ["Idempotent-Replayed", "Idempotent-Body", "Repr-Digest"];

function runJob(components: Components): Json {
  const refusals = refusalsOf(
    [
      ...COMMON_REFUSALS,
      ...(["runner.key_missing", "runner.signature_rejected", "runner.job_unknown"] as const),
      ...(["runner.busy", "request.too_large", "runner.key_reused"] as const),
      ...(["runner.input_rejected", "runner.throttled", "runner.handler_failed"] as const),
      ...(["runner.store_unavailable", "service.draining"] as const),
    ],
    components,
    withoutTokenHint,
  );
  return {
    operationId: "runJob",
    tags: [CONTRACT],
    summary: "Run a call, or repeat its first answer.",
    description:
      "The producer sends a call again until it gets a 2xx or a refusal. A repeated Idempotency-Key must get its first 2xx again.",
    security: SIGNATURE,
    parameters: [
      {
        ...{ name: "job_id", in: "path", required: true },
        schema: { ...INT64, minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
      },
      header("Idempotency-Key", true, "The call's id. The same call always has the same key."),
      ...SIGNED,
      header("traceparent", false, "W3C Trace Context."),
    ],
    requestBody: { description: "The body as it came.", required: true, content: ANY_CONTENT },
    responses: {
      "202": {
        description: "The call is stored. A long job delivers its result later.",
        ...headersOf(REPLAYED, components),
        content: ANY_CONTENT,
      },
      "2XX": {
        description: "The job's answer, which is final.",
        ...headersOf(REPLAYED, components),
        content: ANY_CONTENT,
      },
      ...Object.fromEntries(
        Object.entries(refusals).map(([status, refusal]) => [status, withAnyContent(refusal)]),
      ),
      default: { description: "Another answer of the job's own.", content: ANY_CONTENT },
    },
  };
}

/** Permits a body of any type in a refusal. The job itself may answer with the same status, and a body of its own. */
function withAnyContent({ content, ...refusal }: Json): Json {
  return { ...refusal, content: { ...(content as Json), ...ANY_CONTENT } };
}

const LIVEZ = {
  operationId: "getLivez",
  tags: [CONTRACT],
  summary: "Any answer means that the runner is back.",
  security: [],
  responses: {
    "2XX": { description: "The runner takes calls.", content: ANY_CONTENT },
    "4XX": { description: "The runner takes calls, and has no such route.", content: ANY_CONTENT },
  },
};

function referencePaths(components: Components): Record<string, Json> {
  const json = (description: string, schema: z.ZodType) => ({
    description,
    content: { "application/json": { schema: schemaOf(schema, "output", components) } },
  });
  const refusals = (...codes: ErrorCode[]) =>
    refusalsOf([...COMMON_REFUSALS, ...codes], components, withoutTokenHint);
  const read = (operationId: string, summary: string) => ({
    ...{ operationId, tags: [REFERENCE], summary, security: [] },
  });
  return {
    "/jobs": {
      get: {
        ...read("listJobs", "List the jobs that it can run."),
        responses: { "200": json("The jobs.", JobsAnswer), ...refusals() },
      },
    },
    "/calls": {
      get: {
        ...read("listCalls", "List the calls that it runs or has run, the newest first."),
        parameters: [
          query("limit", INT64),
          query("state", schemaOf(ListedState, "input", components)),
          query("job_id", INT64),
          query("after", { type: "string" }),
        ],
        responses: { "200": json("The calls.", CallsAnswer), ...refusals("runner.store_unavailable") },
      },
    },
    "/calls/{call_id}": {
      get: {
        ...{ ...read("getCall", "Show a call."), parameters: [CALL_ID] },
        responses: {
          "200": json("The call.", ListedCall),
          ...refusals("request.not_found", "runner.store_unavailable"),
        },
      },
    },
    "/calls/{call_id}/run": {
      post: {
        ...{ operationId: "runAgain", tags: [REFERENCE], summary: "Give a failed long call new attempts." },
        security: SIGNATURE,
        parameters: [CALL_ID, header("Idempotency-Key", false, "With a secret: the call's id."), ...SIGNED],
        responses: {
          "202": json("The call is stored.", StoredAnswer),
          ...refusals(
            ...(["runner.key_missing", "runner.signature_rejected", "request.not_found"] as const),
            ...(["runner.busy", "request.too_large"] as const),
            ...(["runner.store_unavailable", "service.draining"] as const),
          ),
        },
      },
    },
    "/readyz": {
      get: {
        ...read("getReadyz", "Say whether it takes calls."),
        responses: {
          "200": json("It does.", ReadinessAnswer),
          ...refusals(),
          "503": json("It does not.", ReadinessAnswer),
        },
      },
    },
  };
}
