import { hasConfigFiles } from "../../shared/config/config-dir.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { programName, withoutUnused } from "../../shared/platform/lifecycle/environment.ts";
import {
  EXIT,
  runService,
  type Service,
  type ServiceOptions,
} from "../../shared/platform/lifecycle/run-service.ts";
import { publishRunningDev } from "../../shared/platform/lifecycle/running-dev.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { createPrettyLine } from "../../shared/platform/log/pretty-line.ts";
import { type DevStack, startDevStack } from "./dev-stack.ts";
import { readOwn, sellsOnDevnet } from "./own-config.ts";
import { createPorts } from "./ports.ts";
import { keptSecrets } from "./secrets.ts";
import { describe, summarise } from "./summary.ts";

export type DevProcess = ServiceOptions & {
  configDir: string | undefined;
  serviceId: string | undefined;
  /** The operator's own runner, which replaces the reference runner. */
  runner: URL | undefined;
  /**
   * First of the consecutive ports that the stack uses. Without it, each process uses its usual port, or another one if
   * that is taken.
   */
  portBase: number | undefined;
  /**
   * Whether all log lines are shown on a terminal, and not only warnings and errors. If the output is not a terminal, all
   * lines are always written.
   */
  verbose: boolean;
};

/**
 * Runs every process ("part") of Postern on this machine, until a signal comes or a part ends by itself. It starts a
 * Redis too, unless REDIS_URL names one. SIGHUP stops all parts as well. A terminal that closes sends it only to this
 * process, because the parts are in process groups of their own.
 */
export async function runDev(options: DevProcess): Promise<number> {
  const { env, pretty, verbose } = options;
  const level = env["POSTERN_LOG_LEVEL"] || "warn";
  const own = pretty && !verbose ? { ...options, env: { ...env, POSTERN_LOG_LEVEL: level } } : options;
  const code = await runService("dev", own, (service) => start(options, service), { onHangup: "stop" });
  if (pretty && code === EXIT.ok) console.log("Stopped.");
  return code;
}

async function start(options: DevProcess, { log, shutdown }: Service) {
  const { configDir, runner, env, pretty, verbose } = options;
  const own = readOwn(configDir, env);
  const stack = await startDevStack({
    own,
    sellsOnDevnet: sellsOnDevnet(own),
    runner,
    serviceId: options.serviceId ?? (env["POSTERN_SERVICE_ID"] || "0"),
    ports: createPorts(options.portBase),
    secrets: keptSecrets(process.cwd(), log),
    env: withoutUnused(env, configDir),
    onLine: createPrinter({ pretty, verbose }),
    log,
    shutdown,
  });

  const usual = env["POSTERN_CONFIG_DIR"] || "config";
  if (configDir === undefined && hasConfigFiles(usual)) {
    const command = `${programName(env)} dev --config-dir ${usual}`;
    log.warn("dev.config_not_read", {
      reason: `postern dev does not read the files in ${usual}; to use them, run ${command}`,
    });
  }
  publishRunningDev(env, stack.config.dir);
  announce(summarise(stack, programName(env)), { pretty, log });
  if (pretty) shutdown.defer("notice", () => console.log("\nStopping ..."));
  return { fatal: firstEnd(stack) };
}

/** Returns a promise that rejects once a process that `postern dev` has started ends by itself. */
function firstEnd({ parts, devnetPart, privateRedis }: DevStack): Promise<never> {
  const processes = [...Object.values(parts), devnetPart].flatMap((part) => part?.process ?? []);
  const ownRedis = privateRedis === undefined ? [] : [{ name: "redis", exit: privateRedis.exit }];
  const ends = [...processes, ...ownRedis].map(async ({ name, exit }): Promise<never> => {
    const { code, signal } = await exit;
    const reason = `${name} ended unexpectedly (${signal ?? `exit code ${code}`})`;
    throw new AppError("start.part_ended", { reason });
  });
  const fatal = Promise.race(ends);
  fatal.catch(() => {});
  return fatal;
}

/**
 * Prints the summary. If stdout is not a terminal, it has only JSON lines for programs. The summary is then one of these
 * lines, and the text for people goes to stderr.
 */
function announce(summary: ReturnType<typeof summarise>, { pretty, log }: { pretty: boolean; log: Logger }) {
  const text = describe(summary);
  if (pretty) return console.log(text);
  log.info("dev.ready", summary);
  console.error(text);
}

/**
 * Returns a function that prints a log line of a part. On a terminal, the line is formatted and begins with the part's
 * name. Elsewhere it is printed as the part wrote it.
 */
function createPrinter({ pretty, verbose }: Pick<DevProcess, "pretty" | "verbose">) {
  if (!pretty) return (_part: string, line: string) => console.log(line);
  const toText = createPrettyLine({ colour: true });
  return (part: string, line: string) => {
    if (verbose || !isBelowWarning(line)) console.log(`${part.padEnd(9)} ${toText(line)}`);
  };
}

/** Returns whether a log line is neither a warning nor an error. */
function isBelowWarning(line: string): boolean {
  return /^\{"level":"info",/.test(line);
}
