import { configHash, fingerprintOf } from "../config/fingerprint.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { keepingRestartKeys } from "../config/restart-keys.ts";
import { type AppError, toAppError } from "../platform/errors/app-error.ts";
import type { Fields, Logger } from "../platform/log/logger.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { systemClock } from "../platform/time/clock.ts";
import { toIso } from "../platform/time/iso.ts";
import type { Reports } from "../telemetry/processes/report.ts";

type Options<Config> = {
  /** Configuration at the start. */
  config: Config;
  /** Reads and checks the files again. Throws `start.config_invalid`. */
  read: () => Config;
  /** Resolves once the process uses this configuration. */
  follow: (config: Config) => Promise<void>;
  reports: Pick<Reports, "configured">;
  metrics: Metrics;
  log: Logger;
};

export type Reload = {
  /** Reads the configuration again. If a reload is already in progress, reads it once more after that reload. */
  now(cause: string): Promise<void>;
  /** Reads the configuration again if its files have changed since they were last read. */
  ifChanged(cause: string): Promise<void>;
  /** Returns which configuration is in force, and the problem of a newer one that is not. */
  about(): Fields;
};

type Found<Config> =
  | { config: Config; error?: undefined; mark: string }
  | { config?: undefined; error: AppError; mark: string };

/**
 * Creates the reload of a running process's configuration. It replaces the configuration completely. If the new one is wrong, it
 * changes nothing.
 */
export function createReload<Config extends PosternConfig>(options: Options<Config>): Reload {
  const { read, follow, reports, log } = options;
  let inForce = toInForce(options.config);
  /**
   * Mark of the last configuration that was read, to recognize changes. It is the configuration's fingerprint, or the error
   * message if it was invalid.
   */
  let seen = fingerprintOf(options.config);
  let problem: string | undefined;
  let running: Promise<void> | undefined;
  let again: string | undefined;

  function readNow(): Found<Config> {
    try {
      const config = read();
      return { config, mark: fingerprintOf(config) };
    } catch (thrown) {
      const error = toAppError(thrown);
      return { error, mark: error.message };
    }
  }

  async function load(cause: string): Promise<void> {
    const begunAt = performance.now();
    const found = readNow();
    seen = found.mark;
    try {
      if (found.config === undefined) throw found.error;
      const { config, changed } = keepingRestartKeys(inForce.config, found.config);
      if (changed.length > 0) log.warn("config.restart_needed", { keys: changed });
      for (const warning of config.warnings) log.warn("config.warning", { warning });
      await follow(config);
      inForce = toInForce(config);
      problem = undefined;
      reports.configured(withoutWarnings(config));
      const tookMs = Math.round(performance.now() - begunAt);
      log.info("config.reloaded", { cause, config: inForce.hash, tookMs });
    } catch (error) {
      const { code, message } = toAppError(error);
      problem = message;
      reports.configured(withoutWarnings(inForce.config), message);
      log.error("config.reload_failed", { cause, code, reason: message });
    }
  }

  async function loadAll(cause: string): Promise<void> {
    await load(cause);
    while (again !== undefined) {
      const next = again;
      again = undefined;
      await load(next);
    }
    running = undefined;
  }

  function now(cause: string): Promise<void> {
    if (running !== undefined) again = cause;
    running ??= loadAll(cause);
    return running;
  }

  registerConfig(options.metrics, () => ({ ...inForce, isFailed: problem !== undefined }));
  return {
    now,

    async ifChanged(cause) {
      if (running === undefined && readNow().mark !== seen) await now(cause);
    },

    about: () => ({
      hash: inForce.hash,
      loaded_at: toIso(inForce.at),
      ...(problem !== undefined && { problem }),
    }),
  };
}

/**
 * Returns a configuration with its hash and the time at which it came into force. The hash is computed here once, because each
 * probe and each scrape shows it.
 */
function toInForce<Config extends PosternConfig>(config: Config) {
  return { config, hash: configHash(withoutWarnings(config)), at: systemClock() };
}

function withoutWarnings({ warnings: _, ...config }: PosternConfig): Readonly<Record<string, unknown>> {
  return config;
}

type InForce = { hash: string; at: number; isFailed: boolean };

function registerConfig(metrics: Metrics, now: () => InForce): void {
  const info = metrics.gauge("postern_config_info", "1 for the hash of the configuration in force", ["hash"]);
  const loadedAt = metrics.gauge(
    "postern_config_loaded_timestamp_seconds",
    "Unix time at which the configuration in force was loaded",
  );
  const isRight = metrics.gauge(
    "postern_config_last_reload_successful",
    "0 while the configuration that was read last is not in force because it is wrong",
  );
  metrics.beforeScrape(() => {
    const { hash, at, isFailed } = now();
    info.reset();
    info.set({ hash }, 1);
    loadedAt.set(at / 1000);
    isRight.set(isFailed ? 0 : 1);
  });
}
