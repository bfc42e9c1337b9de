import { type ConfigDir, openConfigDir } from "./config-dir.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import type { Env } from "./secrets.ts";
import { shortSecrets } from "./secrets.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml } from "./webhooks-toml.ts";

export type Config = {
  postern: PosternToml;
  /** Absent without the file: the gateway is off. */
  webhooks: WebhooksToml | undefined;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

/**
 * Reads what every process needs of the configuration directory. Throws `start.config_invalid` whose message lists every
 * problem of these files, one a line, as `file: key: what is wrong`. The files of the x402 gateway are `loadX402Config`'s:
 * their checks need libraries, and their secrets belong to no other process.
 */
export function loadConfig({ dir, env }: { dir: string; env: Env }): Config {
  const files = openConfigDir(dir);
  return files.checked(readConfig(files, env));
}

/** As `loadConfig`, for who reads more files and throws once: what is wrong is reported to `files`. */
export function readConfig(files: ConfigDir, env: Env): Config | undefined {
  const postern = files.read({ name: "postern.toml", schema: posternToml(env) });
  const webhooks = files.read({
    name: "webhooks.toml",
    schema: webhooksToml(env),
    optional: true,
    alsoAsk: repeatedPaths,
  });
  if (postern === undefined) return undefined;
  return {
    postern,
    webhooks,
    warnings: [...shortSecrets("postern.toml", postern), ...shortSecrets("webhooks.toml", webhooks)],
  };
}
