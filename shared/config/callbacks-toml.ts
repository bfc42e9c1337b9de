import { createRequire } from "node:module";
import { isIP } from "node:net";
import { z } from "zod";
import { readTarget, receiverEntryProblem, wildcardDomain } from "../call/callback-target.ts";
import { coversEveryAddress, createAddressList } from "../http/ip/address-list.ts";
import { isWithin, mayConnectTo } from "../http/ip/public-address.ts";
import { Secret } from "../platform/crypto/secret.ts";
import { addressRange, attempts, isTable, positive } from "./fields.ts";
import { backoffTable, OUTLASTS_LOCK, toBackoff } from "./jobs-toml.ts";
import { keyOf, type Problem, problem } from "./problem.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

const require = createRequire(import.meta.url);

/** A secret of 24 to 64 bytes, as Standard Webhooks requires. */
const WHSEC = /^whsec_(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const KEY_BYTES = { least: 24, most: 64 };

/**
 * Whether this is a valid signing secret. A value that is not a `Secret` passes, because `secretValues` has already
 * reported it.
 */
function isSigningSecret(secret: unknown): boolean {
  if (!(secret instanceof Secret)) return true;
  const bytes = Buffer.from(secret.reveal().slice("whsec_".length), "base64").length;
  return WHSEC.test(secret.reveal()) && bytes >= KEY_BYTES.least && bytes <= KEY_BYTES.most;
}

const DAY_SECS = 86_400;

const allowCidrs = z
  .array(addressRange)
  .refine(
    (ranges) => ranges.some((range) => !addressRange.safeParse(range).success) || !coversEveryAddress(ranges),
    "must not cover all addresses together: clients could then send callbacks into your network",
  );

/** `[callbacks]` of postern.toml: how callbacks are sent. Without the table none are sent. */
export const callbacks = (from: SecretSource) =>
  z.strictObject({
    secret: secretValues(from)
      .refine(
        (secrets) => secrets.every(isSigningSecret),
        "must be whsec_ and 24 to 64 random bytes in base64; openssl rand -base64 32 prints such bytes",
      )
      .meta({ writtenAs: z.union([z.string(), z.array(z.string()).min(1)]) })
      .optional(),
    allow_cidrs: allowCidrs.default([]),
    timeout_ms: positive.default(10_000),
    concurrency: positive.default(10),
    attempts: attempts.default(24),
    backoff: backoffTable(5000, DAY_SECS * 250).prefault({}),
    result_bytes_max: z
      .int()
      .min(0)
      .max(256 * 1024)
      .default(16 * 1024),
  });
export type CallbacksToml = z.output<ReturnType<typeof callbacks>>;

/** URL of the receiver that the operator sets for an endpoint or a job. */
export const callbackUrl = z.string().superRefine((text, context) => {
  const read = readTarget(text);
  if ("problem" in read) context.addIssue(read.problem);
});

/** Hosts and wildcards of the receivers that a request may name. */
export const callbackHosts = z
  .array(
    z.string().superRefine((text, context) => {
      const problem = receiverEntryProblem(text);
      if (problem !== undefined) context.addIssue(problem);
    }),
  )
  .min(1);

/**
 * Warns about wildcards that do not restrict anything: anyone can own a host below a public suffix, such as co.uk or
 * github.io. Loading the list of suffixes takes 60 ms, so it is loaded only for wildcards.
 */
export function callbackHostWarnings(
  file: string,
  checked: object,
  lists: readonly { path: readonly PropertyKey[]; hosts: readonly string[] | undefined }[],
): string[] {
  const wildcards = lists.flatMap(({ path, hosts = [] }) =>
    hosts.flatMap((host, index) => {
      const domain = wildcardDomain(host);
      return domain === undefined ? [] : [{ path: [...path, index], host, domain }];
    }),
  );
  if (wildcards.length === 0) return [];
  const psl = require("psl") as { get(host: string): string | null };
  const isPublicSuffix = (domain: string) => psl.get(domain) === null;
  return wildcards
    .filter(({ domain }) => isPublicSuffix(domain))
    .map(({ path, host, domain }) => {
      const what = `${host} covers hosts of strangers, because ${domain} is a public suffix`;
      return `${file}: ${keyOf(path, checked)}: ${what}; list hosts, or wildcards below your own domains`;
    });
}

/**
 * Returns the reason why producers would not connect to this receiver, which the operator configured; undefined if they
 * may. Host names are resolved only when a producer connects. So this check can refuse only IP addresses, `localhost`
 * (RFC 6761), and any `http` URL if `allowCidrs` is empty.
 */
export function closedReceiver(text: string, allowCidrs: readonly string[]): string | undefined {
  const { protocol, hostname } = new URL(text);
  const allowed = createAddressList(allowCidrs);
  const mayConnect = (address: string) =>
    protocol === "https:" ? mayConnectTo(address, allowed) : isWithin(address, allowed);
  const isLocal = /^(?:.+\.)?localhost\.?$/.test(hostname);
  const address = hostname.replace(/^\[(.*)\]$/, "$1");
  const addresses = isLocal ? LOOPBACK : isIP(address) === 0 ? [] : [address];
  const isClosed =
    addresses.length > 0 ? !addresses.some(mayConnect) : protocol === "http:" && allowCidrs.length === 0;
  return isClosed
    ? "must be an https URL of a public address, or have its address in callbacks.allow_cidrs of postern.toml"
    : undefined;
}

const LOOPBACK = ["127.0.0.1", "::1"];

/**
 * Reports callbacks without a secret. Takes the file as written: processes that do not need the secret remove it before
 * the validation, so the schema cannot require it.
 */
export function unsignedCallbacks(table: unknown): Problem[] {
  const own = isTable(table) ? table["callbacks"] : undefined;
  if (!isTable(own) || own["secret"] !== undefined) return [];
  return [problem(["callbacks", "secret"], "is missing: receivers verify callbacks with it")];
}

/** Reports a callback timeout that is not below `lock_ms`, because a delivery must end before its lease expires. */
export function callbackProblems({
  callbacks: own,
  producer,
}: {
  callbacks?: CallbacksToml | undefined;
  producer: { lock_ms: number };
}): Problem[] {
  if (own === undefined || own.timeout_ms < producer.lock_ms) return [];
  return [problem(["callbacks", "timeout_ms"], OUTLASTS_LOCK)];
}

/** Options for delivering callbacks (services/producer/callbacks) and for retrying them. */
export function toCallbackOptions({ secret = [], ...table }: CallbacksToml) {
  const { allow_cidrs, timeout_ms, concurrency, attempts, backoff, result_bytes_max } = table;
  return {
    secrets: secret,
    allowCidrs: allow_cidrs,
    timeoutMs: timeout_ms,
    concurrency,
    attempts,
    backoff: toBackoff(backoff),
    resultBytesMax: result_bytes_max,
  };
}
