import { openConfigDir } from "./config-dir.ts";
import { type Config, readWebhooks } from "./read-config.ts";
import { type PosternConfig, type Reader, readPostern } from "./read-postern.ts";
import type { Env } from "./secrets.ts";

export type LoadOptions = { dir: string; env: Env; reader?: Reader | undefined };

/**
 * Reads `postern.toml` and `webhooks.toml`. Throws `start.config_invalid`, whose message lists every problem of these files, one a
 * line, as `file:line: key: what is wrong`. shared/pricing loads the files of the x402 gateway and of the pricing engine: their
 * checks compute prices, and no other process should hold their secrets.
 */
export function loadConfig({ dir, env, reader }: LoadOptions): Config {
  const files = openConfigDir(dir);
  return files.checked(readWebhooks(files, env, reader));
}

/** Reads `postern.toml` alone. */
export function loadPostern({ dir, env, reader }: LoadOptions): PosternConfig {
  const files = openConfigDir(dir);
  return files.checked(readPostern(files, env, reader));
}
