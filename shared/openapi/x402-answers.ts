import { z } from "zod";
import type { SchemeName } from "../chain/payment-schemes.ts";
import { Failure } from "./call-answers.ts";
import { problemMembers } from "./document.ts";

/* Answers of the payment gateway: the types of its routes, and the schemas of its OpenAPI document. */

export const settlementMembers = {
  network: z.string(),
  asset: z.string(),
  symbol: z.string(),
  amount: z.string(),
  pay_to: z.string(),
  scheme: z.literal("exact" satisfies SchemeName),
};

const SettlementOption = z
  .object({ protocol: z.literal("x402"), ...settlementMembers, x402_endpoint: z.string() })
  .meta({ id: "SettlementOption" });

const ids = { service_id: z.int(), job_index: z.int() };
const mode = z.enum(["public_paid", "restricted_paid", "disabled"]);

const priced = {
  ...ids,
  price_wei: z.string(),
  settlement_options: z.array(SettlementOption),
  policy: mode,
};

export const PriceAnswer = z.object(priced).meta({ id: "Price" });
export type PriceAnswer = z.infer<typeof PriceAnswer>;

const ListedJob = z
  .object({
    ...priced,
    name: z.string().optional(),
    description: z.string().optional(),
    url: z.string(),
    price_url: z.string(),
    schema_url: z.string().optional(),
    input_schema: z.record(z.string(), z.unknown()).optional(),
    input_example: z.unknown().optional(),
    output_schema: z.record(z.string(), z.unknown()).optional(),
    output_example: z.unknown().optional(),
  })
  .meta({ id: "ListedJob" });
export type ListedJob = z.infer<typeof ListedJob>;

export const JobListAnswer = z
  .object({ jobs: z.array(ListedJob), next: z.string().optional() })
  .meta({ id: "JobList" });
export type JobListAnswer = z.infer<typeof JobListAnswer>;

export const PermissionAnswer = z
  .object({ allowed: z.literal(true), mode: mode.optional(), caller: z.string().optional() })
  .meta({ id: "Permission" });
export type PermissionAnswer = z.infer<typeof PermissionAnswer>;

const Receipt = z
  .object({
    network: z.string(),
    asset: z.string(),
    symbol: z.string(),
    amount: z.string(),
    payer: z.string(),
    pay_to: z.string(),
    transaction: z.string(),
    quote_digest: z.string(),
  })
  .meta({ id: "Receipt" });

/**
 * A receipt with a signature (RFC 7515), so that others than the payer can verify it. If they also get `salt`, they can verify
 * which body was paid for.
 */
export const SignedReceiptAnswer = z
  .object({ jws: z.string(), salt: z.string().optional() })
  .meta({ id: "SignedReceipt" });

export const PaidAnswer = z
  .object({
    status: z.enum(["accepted", "failed", "discarded", "refund_pending", "refunded"]),
    call_id: z.string(),
    receipt: Receipt,
    signed_receipt: SignedReceiptAnswer.optional(),
    ...ids,
    transaction: z.string(),
    status_url: z.string(),
    result_token: z.string().optional(),
    result_url: z.string().optional(),
  })
  .meta({ id: "PaidCall" });
export type PaidAnswer = z.infer<typeof PaidAnswer>;

/** A refusal that concerns a job or a payment. */
export const JobProblem = z
  .object({
    ...problemMembers,
    service_id: z.int().optional(),
    job_index: z.int().optional(),
    /** The URL at which to follow a payment whose outcome is unknown. */
    status_url: z.string().optional(),
    errors: z.array(z.object({ detail: z.string(), pointer: z.string() })).optional(),
    /** The failure of the call, if the client waits for its result. */
    failure: Failure.optional(),
  })
  .meta({ id: "JobProblem" });

const OfferV1 = z
  .object({
    scheme: z.string(),
    network: z.string(),
    maxAmountRequired: z.string(),
    resource: z.string(),
    description: z.string(),
    mimeType: z.string(),
    payTo: z.string(),
    maxTimeoutSeconds: z.int(),
    asset: z.string(),
    extra: z.record(z.string(), z.unknown()),
    outputSchema: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({ id: "OfferV1" });

/**
 * The body of a 402 or 412, with the reason and the offers of version 1. The offers of version 2 are in the header
 * `PAYMENT-REQUIRED`.
 */
export const PaymentRequiredAnswer = z
  .object({
    ...problemMembers,
    x402Version: z.literal(1).optional(),
    accepts: z.array(OfferV1).optional(),
  })
  .meta({ id: "PaymentRequired" });

/** A 402 that requires a sign-in. */
export const SignInRequired = z
  .object({
    ...problemMembers,
    x402Version: z.literal(2),
    resource: z.object({ url: z.string() }),
    accepts: z.array(z.unknown()).max(0),
    extensions: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "SignInRequired" });

export const WellKnownAnswer = z
  .object({
    version: z.literal(2),
    x402Version: z.literal(2),
    name: z.string(),
    openapi: z.string(),
    llms: z.string(),
    /** The URLs of the jobs for sale. */
    resources: z.array(z.string()),
  })
  .meta({ id: "WellKnown" });
export type WellKnownAnswer = z.infer<typeof WellKnownAnswer>;
