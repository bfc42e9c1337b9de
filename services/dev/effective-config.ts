import { existsSync } from "node:fs";
import { freePort } from "../../shared/child-process/free-port.ts";
import { type Config, loadConfig } from "../../shared/config/load-config.ts";
import { readTables } from "../../shared/config/read-tables.ts";
import { type ConfigTables, type Table, writeConfig } from "../../shared/config/write-config.ts";
import { createDevConfig, newSecret } from "../../shared/dev-config/dev-config.ts";

export type Effective = Config & {
  dir: string;
  /** Whether the endpoints and their secrets were made for this run. */
  madeUp: boolean;
};

type Options = { source: string | undefined; target: string; redisUrl: string; env: NodeJS.ProcessEnv };

/**
 * Writes to `target` what the parts shall run with: the operator's files where there are some, with dev's Redis in
 * place of theirs and no time to drain, else a configuration made up for this run. Throws `start.config_invalid`.
 */
export async function writeEffectiveConfig({ source, target, redisUrl, env }: Options): Promise<Effective> {
  const own = source !== undefined && existsSync(source) ? ownTables(source, env) : {};
  const madeUp = own.webhooks === undefined;
  const tables = madeUp ? await madeUpTables(redisUrl) : own;
  writeConfig(target, { ...tables, postern: adapted({ ...tables.postern, ...own.postern }, redisUrl) });
  return { ...loadConfig({ dir: target, env }), dir: target, madeUp };
}

/** Checked before they are changed, so that problems are told with the operator's own file names. */
function ownTables(dir: string, env: NodeJS.ProcessEnv): ConfigTables {
  loadConfig({ dir, env });
  return readTables(dir);
}

async function madeUpTables(redisUrl: string): Promise<ConfigTables> {
  const [webhooks, runner] = [`127.0.0.1:${await freePort(9090)}`, `127.0.0.1:${await freePort(8645)}`];
  return createDevConfig({ redisUrl, webhooks, runner });
}

function adapted(postern: Table, redisUrl: string): Table {
  const { redis, runner } = postern as { redis?: object; runner?: object };
  return {
    ...postern,
    drain_secs: 0,
    redis: { ...redis, url: redisUrl },
    runner: { secret: newSecret(), ...runner },
  };
}
