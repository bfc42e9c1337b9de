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
import { readOwn, sellsByItself } from "./own-config.ts";
import { createPorts } from "./ports.ts";
import { keptSecrets } from "./secrets.ts";
import { describe, summarise } from "./summary.ts";

export type DevProcess = ServiceOptions & {
  configDir: string | undefined;
  serviceId: string | undefined;
  /** The operator's own runner, in place of the reference runner. */
  runner: URL | undefined;
  /** The first port of the stack; without it each part has its usual port, or another that is free. */
  portBase: number | undefined;
  /** Prints what the parts log on a terminal too, not only their warnings and errors. In a pipe all of it is there anyway. */
  verbose: boolean;
};

/**
 * Every part of Postern on this machine, with a private Redis, until a signal comes or a part ends by itself. Its parts are
 * processes that a closed terminal does not reach, so a SIGHUP ends them all.
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
    sellsByItself: sellsByItself(own),
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

/** Rejects once something that was started ends by itself. */
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

/** Without a terminal stdout is for JSON lines, and the text for people is beside them on stderr. */
function announce(summary: ReturnType<typeof summarise>, { pretty, log }: { pretty: boolean; log: Logger }) {
  const text = describe(summary);
  if (pretty) return console.log(text);
  log.info("dev.ready", summary);
  console.error(text);
}

/** Prints a part's lines: as they are, or, for a terminal, readable and after the part's name. */
function createPrinter({ pretty, verbose }: Pick<DevProcess, "pretty" | "verbose">) {
  if (!pretty) return (_part: string, line: string) => console.log(line);
  const toText = createPrettyLine({ colour: true });
  return (part: string, line: string) => {
    if (verbose || !isCalm(line)) console.log(`${part.padEnd(9)} ${toText(line)}`);
  };
}

/** Whether this is a line of the log that tells of no fault. */
function isCalm(line: string): boolean {
  return /^\{"level":"info",/.test(line);
}
