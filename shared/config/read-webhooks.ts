import {
  bodyBudgetProblems,
  closedReceivers,
  forwardedMetadata,
  tokenlessResults,
  unsentCallbacks,
  waitProblems,
} from "./between-files.ts";
import type { CheckedTables } from "./checked-tables.ts";
import type { PosternToml } from "./postern-toml.ts";
import { type PosternConfig, type Reader, readPostern } from "./read-postern.ts";
import type { Env } from "./secrets.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml, webhooksWarnings } from "./webhooks-toml.ts";

export type Config = PosternConfig & {
  /** Undefined if there is no `webhooks.toml`. The webhooks gateway is off then. */
  webhooks: WebhooksToml | undefined;
};

/**
 * Reads `postern.toml` for a process that reads its other files itself. Without a `reader`, the configuration is only
 * checked and not used by a process. Then `webhooks.toml` is read too, so that its problems are found.
 */
export function readConfig(files: CheckedTables, env: Env, reader: Reader | undefined): Config | undefined {
  if (reader === undefined) return readWebhooks(files, env, reader);
  const config = readPostern(files, env, reader);
  return config && { ...config, webhooks: undefined };
}

/** Reads `postern.toml` and `webhooks.toml`. Adds problems to `files`. */
export function readWebhooks(files: CheckedTables, env: Env, reader: Reader | undefined): Config | undefined {
  const config = readPostern(files, env, reader);
  const webhooks = files.read({
    name: "webhooks.toml",
    schema: webhooksToml({ env, dir: files.dir }),
    optional: true,
    problemsIn: repeatedPaths,
  });
  reportBetween(files, reader);
  if (config === undefined) return undefined;
  return {
    ...config,
    webhooks,
    warnings: [...config.warnings, ...(webhooks ? webhooksWarnings(webhooks) : [])],
  };
}

/** Reports keys of `postern.toml` and `webhooks.toml` that contradict each other. */
function reportBetween(files: CheckedTables, reader: Reader | undefined): void {
  const [own, hooks] = ["postern.toml", "webhooks.toml"];
  const readsTokens = reader === undefined || reader === "gateway";
  const rules = [
    forwardedMetadata,
    closedReceivers,
    unsentCallbacks,
    ...(readsTokens ? [tokenlessResults] : []),
    waitProblems,
  ];
  for (const rule of rules) files.reportBetween<[PosternToml, WebhooksToml]>(hooks, [own, hooks], rule);
  files.reportBetween<[PosternToml, WebhooksToml]>(own, [own, hooks], bodyBudgetProblems);
}
