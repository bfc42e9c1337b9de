import { z } from "zod";
import { jobKey } from "../pricing/price-list.ts";
import { acceptedToken } from "./accepted-token.ts";
import type { Problem } from "./config-dir.ts";
import { address, httpUrl, isPrivateUrl, positive } from "./fields.ts";
import { quoteDomain } from "./quote-domain.ts";
import { ratePerNativeUnit, rateProblems } from "./rate-source.ts";
import { secretHeaders } from "./secret-headers.ts";
import { type Env, secretValues } from "./secret-value.ts";
import { jobPolicy } from "./x402-policies.ts";
import { evmAddress, markupBps } from "./x402-tokens.ts";

const MAX_TIMEOUT_SECS = 120;
const SETTLE_TIMEOUT_SECS = 20;
/** An authorization has to outlive its settle request by this long, or it is refused. */
export const SETTLE_MARGIN_SECS = 10;

/** `x402.toml`. Without the file the x402 gateway is off. What stands between its keys is `x402Problems`' to say. */
export function x402Toml(env: Env) {
  const file = z
    .strictObject({
      bind_address: address.default("0.0.0.0:8402"),
      public_url: httpUrl,
      facilitator_url: facilitatorUrls,
      facilitator_headers: secretHeaders(env),
      quote_secret: secretValues(env),
      quote_ttl_secs: z.int().min(10).max(86_400).default(300),
      max_timeout_secs: z.int().min(10).max(3600).default(MAX_TIMEOUT_SECS),
      open_payments_per_payer: positive.default(8),
      trust_facilitator: z.boolean().default(false),
      quote_operators: z.array(evmAddress).default([]),
      quote_domain: quoteDomain.optional(),
      default_invocation_mode: defaultMode.default("public_paid"),
      body_limit_bytes: bodyLimit.default(1024 * 1024),
      request_timeout_secs: z.number().min(0.1).max(300).default(15),
      facilitator_timeout_secs: timeoutSecs.default(10),
      settle_timeout_secs: timeoutSecs.default(SETTLE_TIMEOUT_SECS),
      rate_per_native_unit: ratePerNativeUnit(env).optional(),
      markup_bps: markupBps.optional(),
      job_policies: z.array(jobPolicy(env)).default([]),
      accepted_tokens: z.array(acceptedToken(env)).min(1, "needs at least one token"),
    })
    .transform(({ rate_per_native_unit, markup_bps, ...rest }) => rest);
  return z.preprocess(withTokenDefaults, file);
}
export type X402Toml = z.output<ReturnType<typeof x402Toml>>;
export type AcceptedToken = X402Toml["accepted_tokens"][number];
export type JobPolicy = X402Toml["job_policies"][number];

/** The file as read, with the defaults at its top in every token that says nothing else. */
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

/** What is wrong between keys: asked of the file as read, so that other problems do not hide it. */
export function x402Problems(table: unknown): Problem[] {
  const { accepted_tokens, job_policies, trust_facilitator, ...rest } = withTokenDefaults(table) as Row;
  const [tokens, policies] = [rowsOf(accepted_tokens), rowsOf(job_policies)];
  const blind = trust_facilitator === true ? [] : tokens.filter(({ row }) => row["rpc_url"] === undefined);
  return [
    ...repeated(tokens, { key: "asset", list: "accepted_tokens", identity: tokenIdentity }),
    ...repeated(policies, { key: "job_index", list: "job_policies", identity: jobIdentity }),
    ...blind.map(({ index }) => ({
      path: ["accepted_tokens", index, "rpc_url"],
      message: "is missing: the chain says what was paid; only trust_facilitator = true does without it",
    })),
    ...tokens.flatMap(({ row, index }) => rateProblems(row, index)),
    ...tooShort(rest),
    ...withoutDomain(rest),
  ];
}

function tooShort({ max_timeout_secs, settle_timeout_secs }: Row): Problem[] {
  const [longest, settle] = [
    max_timeout_secs ?? MAX_TIMEOUT_SECS,
    settle_timeout_secs ?? SETTLE_TIMEOUT_SECS,
  ];
  if (!(Number(longest) <= Number(settle) + SETTLE_MARGIN_SECS)) return [];
  const message = `must be above settle_timeout_secs + ${SETTLE_MARGIN_SECS}: no payer's authorization would last long enough`;
  return [{ path: ["max_timeout_secs"], message }];
}

function withoutDomain({ quote_operators, quote_domain }: Row): Problem[] {
  if (!Array.isArray(quote_operators) || quote_operators.length === 0 || quote_domain !== undefined)
    return [];
  const message = "is missing: quote_operators sign for a domain (EIP-712), that of their pricing.toml";
  return [{ path: ["quote_domain"], message }];
}

function rowsOf(list: unknown): { row: Row; index: number }[] {
  return Array.isArray(list) ? list.map((row: Row, index) => ({ row, index })) : [];
}

function tokenIdentity({ network, asset }: Row): string | undefined {
  return network === undefined || asset === undefined ? undefined : `${network}/${asset}`.toLowerCase();
}

function jobIdentity({ service_id: serviceId, job_index: jobIndex }: Row): string | undefined {
  const areIds = typeof serviceId === "number" && typeof jobIndex === "number";
  return areIds ? jobKey({ serviceId, jobIndex }) : undefined;
}

type Repeats = { key: string; list: string; identity: (row: Row) => string | undefined };

function repeated(rows: ReturnType<typeof rowsOf>, { key, list, identity }: Repeats): Problem[] {
  const known = rows.map(({ row }) => identity(row));
  return known.flatMap((each, index) => {
    const first = known.indexOf(each);
    if (each === undefined || first === index) return [];
    return [{ path: [list, index, key], message: `is the same as that of ${list}[${first}]` }];
  });
}

const timeoutSecs = z.number().min(1).max(120);

const bodyLimit = z
  .int()
  .min(0)
  .max(64 * 1024 * 1024);

const defaultMode = z.enum(["public_paid", "disabled"], {
  error: ({ input }) =>
    input === "restricted_paid"
      ? "restricted_paid needs a contract: give the job a [[job_policies]] entry"
      : undefined,
});

const facilitatorUrls = z.preprocess(
  (value) => (typeof value === "string" ? [value] : value),
  z
    .array(httpUrl.refine(isPrivateUrl, "must be an https URL, or an http URL on this machine"))
    .min(1, "needs at least one facilitator"),
);
