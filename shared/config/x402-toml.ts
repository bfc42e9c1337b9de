import { z } from "zod";
import { JOB_INDEX_MAX, jobKey } from "../call/job-ids.ts";
import type { TransferMethod } from "../chain/payment-schemes.ts";
import { EVENT_ORDERS } from "../chain/proof.ts";
import { callbackHosts } from "./callbacks-toml.ts";
import {
  decimals,
  evmAddress,
  jobQuoteDomain,
  markupBps,
  network,
  rpcUrl,
  tokenSymbol,
} from "./evm-fields.ts";
import { facilitatorKeys, facilitatorProblems, withFacilitators } from "./facilitators.ts";
import { address, commonBodyLimit, domainText, httpUrl, id, isTable, positive } from "./fields.ts";
import type { Problem } from "./problem.ts";
import { ratePerNativeUnit, rateProblems, rateSettings } from "./rate-source.ts";
import { receiptKeys } from "./receipt-keys.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

const CONFIRMATIONS_MAX = 1000;
/**
 * Default of `void_depth`: the depth of a block that counts as final if the node does not know `finalized`. No
 * reorganisation of a public chain has been this deep so far.
 */
const VOID_DEPTH = 512;
const MAX_TIMEOUT_SECS = 120;
const SETTLE_TIMEOUT_SECS = 20;
/**
 * Time for which an authorization must stay valid after the timeout of its settle request. The gateway refuses an
 * authorization that ends earlier.
 */
export const SETTLE_MARGIN_SECS = 10;
/** Time by which a payer's clock may be ahead of ours. */
const CLOCK_SKEW_SECS = 60;
/** Default maximum validity of an authorization. Some clients sign for an hour, even if the offer asks for less. */
const PAYMENT_WINDOW_SECS = 3600 + CLOCK_SKEW_SECS;

/** `x402.toml`. Without the file the payment gateway is off. `x402Problems` checks the rules between its keys. */
export function x402Toml(from: SecretSource) {
  const file = z
    .strictObject({
      bind_address: address.default("0.0.0.0:8402"),
      public_url: httpUrl,
      ...facilitatorKeys(from),
      quote_secret: secretValues(from),
      receipt_keys: receiptKeys(from).optional(),
      quote_ttl_secs: z.int().min(10).max(86_400).default(300),
      max_timeout_secs: z.int().min(10).max(3600).default(MAX_TIMEOUT_SECS),
      payment_window_secs_max: z.int().min(10).max(86_400).default(PAYMENT_WINDOW_SECS),
      max_offers: positive.optional(),
      offer_payment_flow: z.boolean().default(true),
      open_payments_per_payer: positive.default(8),
      unpaid_verifies_per_payer: positive.default(30),
      unpaid_verifies_per_address: positive.default(600),
      trust_facilitator: z.boolean().default(false),
      quote_operators: z.array(evmAddress).default([]),
      quote_domain: jobQuoteDomain.optional(),
      default_invocation_mode: defaultMode.default("public_paid"),
      body_limit_bytes: commonBodyLimit,
      request_timeout_secs: z.number().min(0.1).max(300).default(15),
      facilitator_timeout_secs: timeoutSecs.default(10),
      settle_timeout_secs: timeoutSecs.default(SETTLE_TIMEOUT_SECS),
      rate_per_native_unit: ratePerNativeUnit(from).optional(),
      markup_bps: markupBps.optional(),
      callback_hosts: callbackHosts.optional(),
      shop: shopTable.optional(),
      job_policies: z.array(jobPolicy(from)).default([]),
      accepted_tokens: z.array(acceptedToken(from)).min(1, "must list at least one token"),
    })
    .transform(({ rate_per_native_unit, markup_bps, shop: written, ...rest }, context) => {
      const shop: z.output<typeof shopTable> = written ?? { tags: [] };
      const named = { ...rest, shop: { ...shop, name: shop.name ?? new URL(rest.public_url).host } };
      return withFacilitators(named, context);
    });
  return z.preprocess(withTokenDefaults, file);
}
export type X402Toml = z.output<ReturnType<typeof x402Toml>>;
export type AcceptedToken = X402Toml["accepted_tokens"][number];
export type JobPolicy = X402Toml["job_policies"][number];

/** Copies the defaults at the top of the unvalidated file into every token that does not set them. */
export function withTokenDefaults(table: unknown): unknown {
  const { accepted_tokens, rate_per_native_unit, markup_bps } = table as Record<string, unknown>;
  if (!Array.isArray(accepted_tokens)) return table;
  const defaults = {
    ...(rate_per_native_unit !== undefined && { rate_per_native_unit }),
    ...(markup_bps !== undefined && { markup_bps }),
  };
  return {
    ...(table as object),
    accepted_tokens: accepted_tokens.map((token) => ({ ...defaults, ...token })),
  };
}

type Row = Readonly<Record<string, unknown>>;

/** Finds problems between keys. Takes the file before its validation, so that other problems do not hide these. */
export function x402Problems(table: unknown): Problem[] {
  const { accepted_tokens, job_policies, trust_facilitator, ...rest } = withTokenDefaults(table) as Row;
  const [tokens, policies] = [rowsOf(accepted_tokens), rowsOf(job_policies)];
  const unwatched =
    trust_facilitator === true ? [] : tokens.filter(({ row }) => row["rpc_url"] === undefined);
  return [
    ...repeated(tokens, "accepted_tokens", "asset", tokenIdentity),
    ...repeated(policies, "job_policies", "job_index", jobIdentity),
    ...unwatched.map(({ index }) => ({
      path: ["accepted_tokens", index, "rpc_url"],
      message: "is missing: payments are confirmed on the chain, except with trust_facilitator = true",
    })),
    ...tokens.flatMap(({ row, index }) => [...rateProblems(row, index), ...tooShallow(row, index)]),
    ...facilitatorProblems(rest),
    ...tooShort(rest),
    ...tooNarrow(rest),
    ...withoutDomain(rest),
  ];
}

function tooShort({ max_timeout_secs, settle_timeout_secs }: Row): Problem[] {
  const [longest, settle] = [
    max_timeout_secs ?? MAX_TIMEOUT_SECS,
    settle_timeout_secs ?? SETTLE_TIMEOUT_SECS,
  ];
  if (typeof longest !== "number" || typeof settle !== "number") return [];
  if (longest > settle + SETTLE_MARGIN_SECS) return [];
  const message = `must be above settle_timeout_secs + ${SETTLE_MARGIN_SECS}: otherwise, no authorization would be valid for long enough`;
  return [{ path: ["max_timeout_secs"], message }];
}

function tooNarrow({ max_timeout_secs, payment_window_secs_max }: Row): Problem[] {
  const [offered, taken] = [
    max_timeout_secs ?? MAX_TIMEOUT_SECS,
    payment_window_secs_max ?? PAYMENT_WINDOW_SECS,
  ];
  if (typeof offered !== "number" || typeof taken !== "number") return [];
  if (taken >= offered + CLOCK_SKEW_SECS) return [];
  const message = `must be at least max_timeout_secs + ${CLOCK_SKEW_SECS}: otherwise, a payer whose clock is ahead would be refused`;
  return [{ path: ["payment_window_secs_max"], message }];
}

function tooShallow({ confirmations, void_depth }: Row, index: number): Problem[] {
  const depth = void_depth ?? VOID_DEPTH;
  if (typeof confirmations !== "number" || typeof depth !== "number" || confirmations < depth) return [];
  const message =
    "must be above confirmations: a depth that does not confirm a payment does not confirm a void";
  return [{ path: ["accepted_tokens", index, "void_depth"], message }];
}

function withoutDomain({ quote_operators, quote_domain }: Row): Problem[] {
  if (!Array.isArray(quote_operators) || quote_operators.length === 0 || quote_domain !== undefined)
    return [];
  const message = "is missing: it must match [domain] in the pricing.toml of the quote_operators (EIP-712)";
  return [{ path: ["quote_domain"], message }];
}

function rowsOf(list: unknown): { row: Row; index: number }[] {
  return Array.isArray(list) ? list.map((row: Row, index) => ({ row, index })) : [];
}

function tokenIdentity({ network, asset }: Row): string | undefined {
  const areNames = typeof network === "string" && typeof asset === "string";
  return areNames ? `${network}/${asset}`.toLowerCase() : undefined;
}

function jobIdentity({ service_id: serviceId, job_index: jobIndex }: Row): string | undefined {
  const areIds = typeof serviceId === "number" && typeof jobIndex === "number";
  return areIds ? jobKey({ serviceId, jobIndex }) : undefined;
}

/** Reports rows of `list` with the same identity as an earlier row. The problem is reported at `key`. */
function repeated(
  rows: ReturnType<typeof rowsOf>,
  list: string,
  key: string,
  identity: (row: Row) => string | undefined,
): Problem[] {
  const known = rows.map(({ row }) => identity(row));
  return known.flatMap((each, index) => {
    const first = known.indexOf(each);
    if (each === undefined || first === index) return [];
    const message = `must be unique: it repeats ${list}[${first}]`;
    return [{ path: [list, index, key], message, other: [list, first, key] }];
  });
}

const shopText = z
  .string()
  .regex(
    /^[!-~](?:[ -~]{0,30}[!-~])?$/,
    "must be 1 to 32 printable ASCII characters, without a space at either end",
  );

/** `[shop]`: how x402 clients and catalogs present this gateway. The limits are those of x402. */
const shopTable = z.strictObject({
  /** Name of the seller. The default is the host of `public_url`, which may be longer than the limit on names. */
  name: shopText.optional(),
  tags: z.array(shopText).max(5).default([]),
  icon_url: httpUrl.optional(),
});

const timeoutSecs = z.number().min(1).max(120);

const defaultMode = z.enum(["public_paid", "disabled"], {
  error: ({ input }) =>
    input === "restricted_paid"
      ? 'must not be "restricted_paid", which needs a contract: add a [[job_policies]] entry for the job'
      : undefined,
});

/** A part of the token's EIP-712 domain. */
const tokenDomain = (part: "name" | "version") =>
  z
    .string({
      error: ({ input }) =>
        input === undefined
          ? `is missing: set the ${part} of the token's EIP-712 domain, which its contract returns from ${part}(); for a token without EIP-3009, set transfer_method = "permit2"`
          : undefined,
    })
    .pipe(domainText);

const onlyForEip3009 = z
  .never('is used only with transfer_method = "eip3009": Permit2 has its own domain and events')
  .optional();

/** Keys of a token that describe its contract, by transfer method. */
const methods = {
  eip3009: {
    transfer_method: z.literal("eip3009"),
    eip3009_name: tokenDomain("name"),
    eip3009_version: tokenDomain("version"),
    event_order: z.enum(EVENT_ORDERS).default("used_first"),
  },
  permit2: {
    transfer_method: z.literal("permit2"),
    eip3009_name: onlyForEip3009,
    eip3009_version: onlyForEip3009,
    event_order: onlyForEip3009,
    /** The EIP-712 domain of the token's EIP-2612 permits, if it supports them. */
    eip2612_domain: z.strictObject({ name: domainText, version: domainText }).optional(),
  },
};

/** Schema of one table of `[[accepted_tokens]]`. `x402Problems` checks the rules between its keys. */
export function acceptedToken(from: SecretSource) {
  const common = {
    network,
    asset: evmAddress,
    symbol: tokenSymbol,
    decimals,
    pay_to: evmAddress,
    rate_per_native_unit: ratePerNativeUnit(from),
    ...rateSettings,
    markup_bps: markupBps.default(0),
    v1: z.boolean().default(true),
    rpc_url: rpcUrl(from).optional(),
    settlement_proof: z.enum(["receipt", "facilitator"]).default("receipt"),
    confirmations: z.int().min(0).max(CONFIRMATIONS_MAX).default(2),
    refund_from: z.array(evmAddress).default([]),
    void_depth: z.int().min(1).max(100_000).default(VOID_DEPTH),
  };
  const tokens = {
    eip3009: z.strictObject({ ...common, ...methods.eip3009 }),
    permit2: z.strictObject({ ...common, ...methods.permit2 }),
  } satisfies Record<TransferMethod, z.ZodObject>;
  type Token = (typeof tokens)[TransferMethod];
  const either = z.discriminatedUnion("transfer_method", Object.values(tokens) as [Token, ...Token[]]);
  return z.preprocess(withTransferMethod, either);
}

function withTransferMethod(token: unknown): unknown {
  return isTable(token) ? { transfer_method: "eip3009", ...token } : token;
}

const job = { service_id: id, job_index: z.int().min(0).max(JOB_INDEX_MAX) };

/** Upper limit of an expiry, later than any date that a signer uses. */
const TEN_BILLION_SECS = 10_000_000_000;

/** Schema of one table of `[[job_policies]]`, which says who may buy a job. For a `restricted_paid` job, a contract decides. */
function jobPolicy(from: SecretSource) {
  const restricted = {
    ...job,
    invocation_mode: z.literal("restricted_paid"),
    rpc_url: rpcUrl(from),
    contract: evmAddress,
  };
  return z.discriminatedUnion("invocation_mode", [
    z.strictObject({ ...job, invocation_mode: z.literal("public_paid") }),
    z.strictObject({ ...job, invocation_mode: z.literal("disabled") }),
    z.discriminatedUnion("auth_mode", [
      z.strictObject({ ...restricted, auth_mode: z.literal("payer_is_caller") }),
      z.strictObject({
        ...restricted,
        auth_mode: z.literal("delegated_caller_signature"),
        caller_expiry_secs_max: z.int().min(1).max(TEN_BILLION_SECS).default(3600),
        bound_caller_proof: z.boolean().default(false),
      }),
    ]),
  ]);
}
