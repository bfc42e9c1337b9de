import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../shared/dev/free-port.ts";
import { provideRedis } from "../../shared/dev/redis.ts";
import { createStack, type ServiceName, untilReady } from "../../shared/dev/stack.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { programName } from "../../shared/lifecycle/environment.ts";
import {
  runService,
  type Service,
  type ServiceOptions,
  type Shutdown,
} from "../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createPrettyLine } from "../../shared/log/pretty-line.ts";
import { namedDevnet, useDevnet } from "./devnet.ts";
import { type Effective, writeEffectiveConfig } from "./effective-config.ts";
import { readOwn, runnerTable, sellsByItself } from "./own-config.ts";
import { isThere, ownRunnerUrl } from "./own-runner.ts";
import { createPorts, type Ports } from "./ports.ts";
import { keptSecrets } from "./secrets.ts";
import { describe, type OwnRunner, type Parts, summarise } from "./summary.ts";

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
export function runDev(options: DevProcess): Promise<number> {
  const { env, pretty, verbose } = options;
  const level = env["POSTERN_LOG_LEVEL"] || "warn";
  const own = pretty && !verbose ? { ...options, env: { ...env, POSTERN_LOG_LEVEL: level } } : options;
  return runService("dev", own, (service) => start(options, service), { onHangup: "stop" });
}

/** Enough for trials: a gateway refuses calls before the machine has no memory left. */
const REDIS_MEMORY = "1gb";

async function start(options: DevProcess, { log, shutdown }: Service) {
  const { configDir, env, pretty, verbose } = options;
  const serviceId = options.serviceId ?? (env["POSTERN_SERVICE_ID"] || "0");
  const print = createPrinter({ pretty, verbose });
  const own = readOwn(configDir, env);
  const ports = createPorts(options.portBase);
  const home = mkdtempSync(join(tmpdir(), "postern-dev-"));
  // No step of the shutdown: a second signal runs none.
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));

  const port = (await ports.of("redis")) || undefined;
  const args = ["--maxmemory", REDIS_MEMORY];
  const redis = await provideRedis({ env, dir: join(home, "redis"), port, args, detached: true });
  shutdown.defer("redis", () => redis.private?.stop());

  const named = namedDevnet(own.checked?.x402);
  const onLine = (line: string) => print("devnet", line);
  const devnet =
    named !== undefined || sellsByItself(own)
      ? await useDevnet({ named, ports, env, onLine, log })
      : undefined;
  shutdown.defer("devnet", () => devnet?.part?.kill("SIGTERM"));

  const runnerUrl = ownRunnerUrl(options.runner, runnerTable(own.tables));
  const webhooksProbes = (await ports.of("webhooksProbes")) || (await freePort());
  const config = await writeEffectiveConfig({
    own,
    deliverTo: `http://127.0.0.1:${webhooksProbes}`,
    target: join(home, "config"),
    redisUrl: redis.url,
    devnet: devnet?.devnet,
    ownRunner: runnerUrl,
    ports,
    secrets: keptSecrets(process.cwd(), log),
    serviceId,
    env,
  });
  const ownRunner = runnerUrl === undefined ? undefined : await lookAt(config, log);
  const parts = await startParts({
    ...{ config, ownRunner, serviceId, env, ports, webhooksProbes, print, shutdown },
  });

  if (configDir === undefined && existsSync("config/postern.toml")) {
    log.warn("dev.config_not_read", {
      reason: "config/ is not read; postern dev --config-dir config runs it",
    });
  }
  const program = programName(env);
  const running = { config, parts, ownRunner, redisUrl: redis.url, devnet: devnet?.devnet, program };
  announce(summarise(running), { pretty, log });

  const processes = [...Object.values(parts), devnet?.part].flatMap((part) => part?.process ?? []);
  const ownRedis = redis.private === undefined ? [] : [{ name: "redis", exit: redis.private.exit }];
  const ends = [...processes, ...ownRedis].map(async ({ name, exit }): Promise<never> => {
    const { code, signal } = await exit;
    const reason = `${name} ended by itself (${signal ?? `exit code ${code}`})`;
    throw new AppError("start.part_ended", { reason });
  });
  const fatal = Promise.race(ends);
  fatal.catch(() => {});
  return { fatal };
}

/** Without a terminal stdout is for JSON lines, and the text for people is beside them on stderr. */
function announce(summary: ReturnType<typeof summarise>, { pretty, log }: { pretty: boolean; log: Logger }) {
  const text = describe(summary);
  if (pretty) return console.log(text);
  log.info("dev.ready", summary);
  console.error(text);
}

/** A runner that is not there yet keeps nobody from starting: its calls wait in the queue. */
async function lookAt(
  { postern, madeUpRunnerSecret, deliverTo }: Effective,
  log: Logger,
): Promise<OwnRunner> {
  const { url, secret } = postern.runner;
  const answers = await isThere(url);
  if (!answers)
    log.warn("dev.runner_away", { url, reason: "nothing answers there; calls wait until it does" });
  return { url, answers, secret: madeUpRunnerSecret ? secret?.[0]?.reveal() : undefined, deliverTo };
}

type Print = (part: string, line: string) => void;

type PartsOptions = {
  config: Effective;
  /** With one, the reference runner is not started. */
  ownRunner: OwnRunner | undefined;
  serviceId: string;
  env: NodeJS.ProcessEnv;
  ports: Ports;
  /** The port that the configuration names. */
  webhooksProbes: number;
  print: Print;
  shutdown: Shutdown;
};

/** Starts every part; each is ready before the next one starts. Throws `start.part_ended` if a part does not start. */
async function startParts(options: PartsOptions): Promise<Parts> {
  const { config, ownRunner, serviceId, env, ports, webhooksProbes, print, shutdown } = options;
  const stack = createStack({ configDir: config.dir, env, detached: true, onLine: print });
  const probesOf = async (service: ServiceName): Promise<number> => {
    if (service === "webhooks") return webhooksProbes;
    return service === "runner" ? 0 : ports.of(`${service}Probes`);
  };
  const startPart = async (service: ServiceName, args: readonly string[] = []) => {
    const probes = await probesOf(service);
    try {
      const part = await stack.start(service, { args, opsAddress: `127.0.0.1:${probes}` });
      shutdown.defer(service, () => part.kill("SIGTERM"));
      await untilReady(part);
      return part;
    } catch (cause) {
      throw new AppError("start.part_ended", { reason: messageOf(cause), cause });
    }
  };
  // The last part to start: a port that was chosen with the configuration could be another dev's by now.
  const consoleArgs = async () =>
    config.hasConsole ? [] : ["--bind-address", `127.0.0.1:${await ports.of("operator")}`];
  return {
    runner: ownRunner === undefined ? await startPart("runner") : undefined,
    producer: await startPart("producer"),
    webhooks: await startPart("webhooks", ["--service-id", serviceId]),
    x402: config.x402 && (await startPart("x402")),
    pricing: config.pricing && (await startPart("pricing")),
    operator: await startPart("operator", await consoleArgs()),
  };
}

/** Prints a part's lines: as they are, or, for a terminal, readable and after the part's name. */
function createPrinter({ pretty, verbose }: Pick<DevProcess, "pretty" | "verbose">): Print {
  if (!pretty) return (_part, line) => console.log(line);
  const toText = createPrettyLine({ colour: true });
  return (part, line) => {
    if (verbose || !isCalm(line)) console.log(`${part.padEnd(9)} ${toText(line)}`);
  };
}

/** Whether this is a line of the log that tells of no fault. */
function isCalm(line: string): boolean {
  return /^\{"level":"info",/.test(line);
}
