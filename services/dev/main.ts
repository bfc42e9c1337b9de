import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DevnetPart, provideDevnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { provideRedis } from "../../shared/dev/redis.ts";
import { createStack, type ServiceName, untilReady } from "../../shared/dev/stack.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import {
  runService,
  type Service,
  type ServiceOptions,
  type Shutdown,
} from "../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createPrettyLine } from "../../shared/log/pretty-line.ts";
import { type Effective, readOwn, wantsDevnet, writeEffectiveConfig } from "./effective-config.ts";
import { describe, type Parts, summarise } from "./summary.ts";

export type DevProcess = ServiceOptions & { configDir: string | undefined; serviceId: string | undefined };

/**
 * Every part of Postern on this machine, with a private Redis, until a signal comes or a part ends by itself. Its parts are
 * processes that a closed terminal does not reach, so a SIGHUP ends them all.
 */
export function runDev(options: DevProcess): Promise<number> {
  return runService("dev", options, (service) => start(options, service), { onHangup: "stop" });
}

async function start({ configDir, serviceId, env, pretty }: DevProcess, { log, shutdown }: Service) {
  const print = createPrinter(pretty, console.log);
  const own = readOwn(configDir, env);
  const home = mkdtempSync(join(tmpdir(), "postern-dev-"));
  shutdown.defer("temporary folder", () => rmSync(home, { recursive: true, force: true }));

  const redis = await provideRedis({ env, dir: join(home, "redis"), detached: true });
  shutdown.defer("redis", () => redis.private?.stop());
  const devnet = wantsDevnet(own) ? await startDevnet(env, print, log) : undefined;
  shutdown.defer("devnet", () => devnet?.part.kill("SIGTERM"));

  const config = await writeEffectiveConfig({
    own,
    target: join(home, "config"),
    redisUrl: redis.url,
    devnet: devnet?.devnet,
    serviceId,
    env,
  });
  const parts = await startParts({ config, serviceId, env, print, shutdown });

  const summary = summarise({ config, parts, redisUrl: redis.url, devnet: devnet?.devnet });
  if (configDir === undefined && existsSync("config/postern.toml")) {
    log.warn("dev.config_not_read", {
      reason: "config/ is not read; postern dev --config-dir config runs it",
    });
  }
  if (pretty) console.log(describe(summary));
  else log.info("dev.ready", summary);

  const running = [...Object.values(parts), devnet?.part].flatMap((part) => part?.process ?? []);
  const ownRedis = redis.private === undefined ? [] : [{ name: "redis", exit: redis.private.exit }];
  const ends = [...running, ...ownRedis].map(async ({ name, exit }): Promise<never> => {
    const { code, signal } = await exit;
    const reason = `${name} ended by itself (${signal ?? `exit code ${code}`})`;
    throw new AppError("start.part_ended", { reason });
  });
  const fatal = Promise.race(ends);
  fatal.catch(() => {});
  return { fatal };
}

const BLOCK_TIME_MS = 1000;

type Print = (part: string, line: string) => void;

/** Undefined, with a warning in the log, if anvil is not installed. */
async function startDevnet(
  env: NodeJS.ProcessEnv,
  print: Print,
  log: Logger,
): Promise<DevnetPart | undefined> {
  const devnet = await provideDevnet({
    env,
    ports: {
      rpc: await freePort(8545),
      facilitator: await freePort(8546),
      control: await freePort(8547),
    },
    blockTimeMs: BLOCK_TIME_MS,
    onLine: (line) => print("devnet", line),
  });
  if (!("missing" in devnet)) return devnet;
  log.warn("dev.without_payments", { reason: devnet.missing });
  return undefined;
}

type PartsOptions = {
  config: Effective;
  serviceId: string | undefined;
  env: NodeJS.ProcessEnv;
  print: Print;
  shutdown: Shutdown;
};

/** Starts every part; each is ready before the next one starts. Throws `start.part_ended` if a part does not start. */
async function startParts({ config, serviceId, env, print, shutdown }: PartsOptions): Promise<Parts> {
  const stack = createStack({ configDir: config.dir, env, detached: true, onLine: print });
  const startPart = async (service: ServiceName, args: readonly string[] = []) => {
    try {
      const part = await stack.start(service, { args });
      shutdown.defer(service, () => part.kill("SIGTERM"));
      await untilReady(part);
      return part;
    } catch (cause) {
      throw new AppError("start.part_ended", { reason: messageOf(cause), cause });
    }
  };
  return {
    runner: await startPart("runner"),
    producer: await startPart("producer"),
    webhooks: await startPart("webhooks", serviceId === undefined ? [] : ["--service-id", serviceId]),
    x402: config.x402 && (await startPart("x402")),
    pricing: config.pricing && (await startPart("pricing")),
  };
}

/** Prints a part's lines: as they are, or, for a terminal, readable and after the part's name. */
function createPrinter(pretty: boolean, print: (line: string) => void): Print {
  if (!pretty) return (_part, line) => print(line);
  const toText = createPrettyLine({ colour: true });
  return (part, line) => print(`${part.padEnd(9)} ${toText(line)}`);
}
