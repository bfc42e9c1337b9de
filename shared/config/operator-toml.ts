import { z } from "zod";
import type { Secret } from "../platform/crypto/secret.ts";
import { between, inEach } from "./between-keys.ts";
import { address, httpUrl, isLoopback } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

const DAY_SECS = 86_400;

/** Role of a token: a viewer only reads, an operator also acts. */
export const ROLES = ["viewer", "operator"] as const;
export type Role = (typeof ROLES)[number];

/** Minimum length of a token. `looksRandom` decides whether a longer one could be guessed. */
const TOKEN_CHARS_MIN = 16;

/** A name that the audit log and the log can show unchanged. */
const TOKEN_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

const HOST_NAME = /^(?!-)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*$/;

const bearerTokens = (from: SecretSource) =>
  secretValues(from).refine(
    (secrets: readonly Pick<Secret, "reveal">[]) =>
      secrets.every(
        (secret) => /^[!-~]+$/.test(secret.reveal()) && secret.reveal().length >= TOKEN_CHARS_MIN,
      ),
    `must be at least ${TOKEN_CHARS_MIN} visible ASCII characters; openssl rand -hex 32 prints such a token`,
  );

const token = (from: SecretSource) =>
  z.strictObject({
    name: z
      .string()
      .regex(TOKEN_NAME, "must be 1 to 64 letters, digits and . _ @ -, and start with a letter or digit"),
    role: z.enum(ROLES),
    token: bearerTokens(from),
  });

const hostName = z
  .string()
  .transform((text) => text.toLowerCase())
  .refine((text) => HOST_NAME.test(text), "must be a host name without a port, such as ops.example.com");

/** `operator.toml`. Without the file, `postern operator` is open to all users of this machine and to no others. */
export function operatorToml(from: SecretSource) {
  return z
    .strictObject({
      bind_address: address.default("127.0.0.1:9300"),
      public_url: httpUrl.optional(),
      allowed_hosts: z.array(hostName).default([]),
      session_secs: z.int().min(60).max(DAY_SECS).default(14_400),
      tokens: z.array(token(from)).max(100).default([]),
    })
    .check(
      between(
        ({ tokens }) => repeatedNames(tokens),
        ({ tokens }) => sharedSecrets(tokens),
        (parsed) => openProblems(parsed, parsed.bind_address),
      ),
    );
}
export type OperatorToml = z.output<ReturnType<typeof operatorToml>>;
export type OperatorToken = z.output<ReturnType<typeof token>>;

function repeatedNames(tokens: readonly OperatorToken[]): Problem[] {
  const names = new Set<string>();
  return inEach(tokens, ({ name }, at) => {
    const isRepeated = names.has(name);
    names.add(name);
    return isRepeated ? [problem(["tokens", at, "name"], "must be unique: another token has this name")] : [];
  });
}

/**
 * Reports secrets that two entries share. Such a secret would get the role of the first entry, even if the other entry
 * has another role.
 */
function sharedSecrets(tokens: readonly OperatorToken[]): Problem[] {
  const secrets = new Set<string>();
  return inEach(tokens, ({ token: own }, at) => {
    const isShared = own.some((secret) => secrets.has(secret.reveal()));
    for (const secret of own) secrets.add(secret.reveal());
    return isShared ? [problem(["tokens", at, "token"], "must be unique: another name has this token")] : [];
  });
}

type Reached = {
  tokens: readonly OperatorToken[];
  public_url?: string | undefined;
  allowed_hosts: readonly string[];
};

/** Reports the keys by which other machines can reach the console, if there is no token. */
export function openProblems({ tokens, public_url, allowed_hosts }: Reached, bindAddress: string): Problem[] {
  if (tokens.length > 0) return [];
  const fix = "add one to [[tokens]] (openssl rand -hex 32 prints a secret)";
  const found: Problem[] = [];
  if (!isLoopback(`http://${bindAddress}`))
    found.push({
      path: ["bind_address"],
      message: `other machines can reach ${bindAddress}, but no token is configured: ${fix}, or bind to 127.0.0.1`,
    });
  if (public_url !== undefined && !isLoopback(public_url))
    found.push({
      path: ["public_url"],
      message: `other machines can reach this URL, but no token is configured: ${fix}`,
    });
  if (allowed_hosts.length > 0)
    found.push({
      path: ["allowed_hosts"],
      message: `other machines can reach these hosts, but no token is configured: ${fix}`,
    });
  return found;
}

/** Whether network traffic to this service is not encrypted, as far as the service can know. */
export function isInTheClear({ public_url }: Pick<Reached, "public_url">, bindAddress: string): boolean {
  return !isLoopback(`http://${bindAddress}`) && public_url?.startsWith("https:") !== true;
}
