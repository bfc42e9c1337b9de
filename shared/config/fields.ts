import { z } from "zod";
import { BODY_BYTES_MAX } from "../call/job-call.ts";
import { isJobName } from "../call/job-ids.ts";
import { addressRangeProblem } from "../http/ip/address-list.ts";
import { listenAddressText, readListenAddress } from "../http/ip/listen-address.ts";
import { messageFor } from "./problem.ts";

/** An address to listen on: `host:port`, or only a port of this machine. The result is `host:port`. */
export const address = z
  .string({ error: ({ input }) => (typeof input === "number" ? `must be quoted: "${input}"` : undefined) })
  .transform((text, context) => {
    const read = readListenAddress(text);
    if (typeof read !== "string") return listenAddressText(read);
    context.addIssue(read);
    return z.NEVER;
  });

/** An address or a CIDR range, for `createAddressList`. */
export const addressRange = z.string().superRefine((text, context) => {
  const problem = addressRangeProblem(text);
  if (problem !== undefined) context.addIssue(problem);
});

export const positive = z.int().min(1);
/** Limit on the bytes of a request's body. */
export const bodyLimit = z.int().min(0).max(BODY_BYTES_MAX);
/** Default body limit of a gateway. */
export const commonBodyLimit = bodyLimit.default(1024 * 1024);
/** Limit on the attempts of a call. */
export const attempts = z.int().min(1).max(100_000);
/** An id: a whole number that every JSON parser keeps exact. */
export const id = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

/** `{ per_second = 50, burst = 100 }`: the average rate, and the number of requests that may come at once. */
export const rateLimit = z
  .strictObject({
    per_second: z.number().min(0.001).max(100_000),
    burst: z.int().min(1).max(1_000_000).optional(),
  })
  .transform(({ per_second, burst }) => ({
    perSecond: per_second,
    burst: burst ?? Math.max(1, Math.ceil(per_second)),
  }));

/** Headers that belong to one connection (RFC 9110, section 7.6.1), in lower case. */
export const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
] as const;

/** A name or version of an EIP-712 domain. */
export const domainText = z.string().min(1, "is empty").max(256);

export const httpUrl = z
  .url({ protocol: /^https?$/, message: "must be an http or https URL" })
  .refine((url) => !/[?#]|\/\/[^/]*@/.test(url), "must have no user, password, query or fragment")
  .transform((url) => url.replace(/\/$/, ""));

/** Whether a URL names this machine itself. */
export function isLoopback(url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Whether a URL is safe for payments and credentials: it uses TLS, or stays on this machine. */
export function isPrivateUrl(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && isLoopback(url));
}

/** Returns the problem of a URL for public keys. Log lines name the URL, so it must not have a password. */
export function keysUrlProblem(url: string): string | undefined {
  if (isPrivateUrl(url) && !/#|\/\/[^/]*@/.test(url)) return undefined;
  return "must be an https URL without user, password and fragment, or http on this machine";
}

/** Whether this is a table of a TOML file, as the parser represents it. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** Name of a job in any file. */
export const jobName = z
  .string()
  .refine(
    isJobName,
    "must be 1 to 32 lower-case letters, digits and hyphens, without a hyphen at either end",
  );

/**
 * Creates the schema of a value with two notations. If `isOne` returns true, the value is checked and reported as
 * notation `one`, otherwise as `other`.
 */
export function eitherNotation<One extends z.ZodType, Other extends z.ZodType>(
  isOne: (value: unknown) => boolean,
  one: One,
  other: Other,
) {
  const written = z.unknown().transform((value, context): z.output<One> | z.output<Other> => {
    const read = (isOne(value) ? one : other).safeParse(value, { error: messageFor });
    if (read.success) return read.data;
    for (const issue of read.error.issues)
      context.issues.push({ ...issue, input: value } as z.core.$ZodRawIssue);
    return z.NEVER;
  });
  return written.meta({ writtenAs: z.union([other, one]) });
}
