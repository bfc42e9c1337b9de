import { z } from "zod";
import { UINT64_MAX } from "../chain/encoding.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { noComponents, problemMembers, refusalsOf, schemaOf, toComponents } from "./document.ts";
import { COMMON_REFUSALS, READS_A_BODY } from "./refusals.ts";
import { settlementMembers } from "./x402-answers.ts";

const bytes = z
  .string("must be a string: 0x and hex digits")
  .regex(/^0x(?:[0-9a-fA-F]{2})*$/, "must be 0x and hex digits, two for each byte")
  .transform((text) => Buffer.from(text.slice(2), "hex"));

const uint64 = z
  .union([z.string().regex(/^(?:0|[1-9]\d{0,19})$/), z.int().min(0)], "must be a decimal integer")
  .transform(BigInt)
  .refine((value) => value <= UINT64_MAX, "must be at most 2^64-1");

/** The body of a request for a quote. A missing field is empty, 0 or false, as in proto3. */
export const QuoteBody = z.strictObject({
  proof_of_work: bytes.prefault("0x"),
  challenge_timestamp: uint64.prefault("0"),
  require_tee: z.boolean().default(false),
  requester: bytes.prefault("0x"),
  inputs_hash: bytes.prefault("0x"),
});

const hex = z.string().regex(/^0x[0-9a-f]*$/);
const decimal = z.string().regex(/^\d+$/);

export const QuoteAnswer = z
  .object({
    quote_details: z.object({
      ...{ requester: hex, service_id: decimal, job_index: decimal, price: decimal },
      ...{ timestamp: decimal, expiry: decimal, confidentiality: decimal, inputs_hash: hex },
    }),
    signature: hex,
    operator_id: hex,
    proof_of_work: hex,
    settlement_options: z.array(z.object(settlementMembers)).readonly().optional(),
    x402_endpoint: z.string().optional(),
    tee_attested: z.boolean(),
    tee_provider: z.string(),
    /** The value of the quote header for a payment gateway. */
    quote_header: z.string(),
  })
  .meta({ id: "Quote" });
export type QuoteAnswer = z.infer<typeof QuoteAnswer>;

/** A refused request for a quote. If the job is unknown, the refusal contains the ids from the request. */
const QuoteProblem = z
  .object({ ...problemMembers, service_id: z.string().optional(), job_index: z.string().optional() })
  .meta({ id: "QuoteProblem" });

const OF_A_QUOTE: readonly ErrorCode[] = [
  ...[COMMON_REFUSALS, READS_A_BODY].flat(),
  ...(["request.not_found", "job.not_found", "pricing.request_invalid"] as const),
  ...(["pricing.tee_unavailable", "pricing.unavailable"] as const),
  ...(["queue.unavailable", "queue.denied", "queue.not_durable"] as const),
  ...(["service.starting", "service.draining"] as const),
];

/** Builds the OpenAPI document of a pricing engine. It is the same for every configuration. */
export function toPricingOpenApi({ version }: { version: string }) {
  const components = noComponents();
  const ids = ["service_id", "job_index"].map((name) => ({
    ...{ name, in: "path", required: true },
    schema: { type: "string", pattern: "^(0|[1-9][0-9]*)$" },
  }));
  const quote = {
    operationId: "getQuote",
    summary: "Sign a quote for a job.",
    security: [],
    parameters: ids,
    requestBody: {
      required: true,
      content: { "application/json": { schema: schemaOf(QuoteBody, "input", components) } },
    },
    responses: {
      "200": {
        description: "The quote, signed by the operator.",
        content: { "application/json": { schema: schemaOf(QuoteAnswer, "output", components) } },
      },
      ...refusalsOf(OF_A_QUOTE, components, (status) =>
        status === 503 || status === 429
          ? { schema: QuoteProblem, headers: ["Retry-After"] }
          : { schema: QuoteProblem },
      ),
    },
  };
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Postern pricing engine",
      version,
      description: "Signs what a job costs. A request brings a proof of work.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The engine" }],
    security: [],
    paths: { "/pricing/jobs/{service_id}/{job_index}/quote": { post: quote } },
    components: toComponents(components),
  };
}
