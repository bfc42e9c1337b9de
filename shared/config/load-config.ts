import { type ConfigDir, openConfigDir } from "./config-dir.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import { keyOf, type Problem } from "./problem.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml } from "./webhooks-toml.ts";

export type Config = {
  postern: PosternToml;
  /** Absent without the file: the gateway is off. */
  webhooks: WebhooksToml | undefined;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

/**
 * Reads the files that every process needs. Throws `start.config_invalid`, whose message lists every problem of these
 * files, one a line, as `file: key: what is wrong`. shared/pricing loads the files of the x402 gateway and of the pricing
 * engine: their checks compute prices, and no other process should hold their secrets.
 */
export function loadConfig({ dir, env }: { dir: string; env: Env }): Config {
  const files = openConfigDir(dir);
  return files.checked(readConfig(files, env));
}

/** A header that a sender could set must not look like what we say of the call. */
export function forwardedMetadata(webhooks: WebhooksToml | undefined, prefix = ""): Problem[] {
  const start = `${prefix}-`.toLowerCase();
  return (webhooks?.endpoints ?? []).flatMap(({ forward_headers }, index) => {
    const at = forward_headers.findIndex((name) => prefix !== "" && name.toLowerCase().startsWith(start));
    const path = ["endpoints", index, "forward_headers", at];
    return at === -1 ? [] : [{ path, message: "begins with metadata_prefix, which only Postern sets" }];
  });
}

/** What the largest body of a file may take, and which of its keys says so. */
type LargestBody = { key: string; bytes: number };

/** A body that is larger than the budget of all bodies would be cut each time it comes. */
export function budgetProblems({ http }: PosternToml, bodies: readonly LargestBody[]): Problem[] {
  const [largest] = [...bodies].sort((one, other) => other.bytes - one.bytes);
  if (largest === undefined || http.body_budget_bytes >= largest.bytes) return [];
  const message = `is below ${largest.bytes}, which one body of ${largest.key} may take`;
  return [{ path: ["http", "body_budget_bytes"], message }];
}

/** Each endpoint's largest body; twice its bytes if there is a decoded form beside the received one. */
export function largestBodies(webhooks: WebhooksToml): LargestBody[] {
  return webhooks.endpoints.map((endpoint, index) => {
    const limit = endpoint.body_limit_bytes ?? webhooks.body_limit_bytes;
    const key = keyOf(["endpoints", index], webhooks);
    if (endpoint.encoded_bodies !== "decode") return { key, bytes: limit };
    return { key: `${key}, received and decoded,`, bytes: 2 * limit };
  });
}

/** Reads the same for a loader of more files: problems go to `files`, which throws once for all. */
export function readConfig(files: ConfigDir, env: Env): Config | undefined {
  const postern = files.read({ name: "postern.toml", schema: posternToml(env) });
  const webhooks = files.read({
    name: "webhooks.toml",
    schema: webhooksToml(env),
    optional: true,
    problemsIn: repeatedPaths,
  });
  files.report("webhooks.toml", forwardedMetadata(webhooks, postern?.metadata_prefix));
  if (postern === undefined) return undefined;
  if (webhooks !== undefined) files.report("postern.toml", budgetProblems(postern, largestBodies(webhooks)));
  return {
    postern,
    webhooks,
    warnings: [...secretWarnings("postern.toml", postern), ...secretWarnings("webhooks.toml", webhooks)],
  };
}
