import { budgetProblems, forwardedMetadata, largestBodies } from "./between-files.ts";
import { type ConfigDir, openConfigDir } from "./config-dir.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
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
