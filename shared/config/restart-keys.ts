import { fingerprintOf } from "./fingerprint.ts";

/** Keys that a process reads only at its start: its addresses, and the settings of its connections and servers. */
const RESTART_KEYS = [
  ...["postern.ops_address", "postern.redis", "postern.runner.redis", "postern.runner.bind_address"],
  ...["postern.console.report", "postern.http.connections", "postern.http.keep_alive_secs"],
  ...["webhooks.bind_address", "webhooks.request_timeout_secs"],
  ...["x402.bind_address", "x402.request_timeout_secs"],
  ...["pricing.bind_address", "pricing.http_address", "operator.bind_address"],
] as const;

type Table = Record<string, unknown>;

/**
 * Returns `next` with the values of `now` for keys that need a restart. `changed` names those whose values differ.
 */
export function keepingRestartKeys<Config extends object>(
  now: Config,
  next: Config,
): { config: Config; changed: string[] } {
  let config = next as unknown as Table;
  const changed: string[] = [];
  for (const key of RESTART_KEYS) {
    const path = key.split(".");
    const value = valueAt(now, path);
    if (fingerprintOf(valueAt(next, path)) === fingerprintOf(value)) continue;
    changed.push(key);
    config = withValue(config, path, value);
  }
  return { config: config as Config, changed };
}

function valueAt(table: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((each, key) => (each as Table | undefined)?.[key], table);
}

function withValue(table: Table, [key = "", ...rest]: readonly string[], value: unknown): Table {
  return { ...table, [key]: rest.length === 0 ? value : withValue((table[key] ?? {}) as Table, rest, value) };
}
