import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exit } from "../../shared/dev/child.ts";
import { type DevnetPart, startDevnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { Part } from "../../shared/dev/process.ts";
import { type ProvidedRedis, provideRedis } from "../../shared/dev/redis.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { runService, type Service, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createPrettyLine } from "../../shared/log/pretty-line.ts";
import { readOwn, wantsDevnet, writeEffectiveConfig } from "./effective-config.ts";
import { endedByItself, type Parts, startParts } from "./parts.ts";
import { describe, summarise } from "./summary.ts";

export type DevProcess = ServiceOptions & { configDir: string | undefined; serviceId: string | undefined };

/** Every part of Postern on this machine, with a Redis of its own, until a signal comes or a part ends by itself. */
export function runDev(options: DevProcess): Promise<number> {
  process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"));
  return runService("dev", options, (service) => start(options, service));
}

async function start({ configDir, serviceId, env, pretty }: DevProcess, { log, shutdown }: Service) {
  const print = createPrinter(pretty, console.log);
  const own = readOwn(configDir, env);
  const home = mkdtempSync(join(tmpdir(), "postern-dev-"));
  shutdown.defer("temporary folder", () => rmSync(home, { recursive: true, force: true }));

  const redis = await provideRedis({ env, dir: join(home, "redis"), detached: true });
  shutdown.defer("redis", () => redis.private?.stop());
  const devnet = wantsDevnet(own) ? await provideDevnet({ env, log, shutdown, print }) : undefined;

  const target = join(home, "config");
  const config = await writeEffectiveConfig({
    own,
    target,
    redisUrl: redis.url,
    devnet: devnet?.devnet,
    serviceId,
    env,
  });
  const sells = config.x402 !== undefined;
  const quotes = config.pricing !== undefined;
  const parts = await startParts({ configDir: target, env, shutdown, print, serviceId, sells, quotes });

  const summary = summarise(config, { parts, redisUrl: redis.url, devnet: devnet?.devnet });
  if (configDir === undefined && existsSync("config/postern.toml")) {
    log.warn("dev.config_not_read", {
      reason: "config/ is not read; postern dev --config-dir config runs it",
    });
  }
  if (pretty) console.log(describe(summary));
  else log.info("dev.ready", summary);
  return { fatal: endedByItself(endsOf({ ...parts, devnet: devnet?.part }, redis)) };
}

function endsOf(parts: Parts & { devnet: Part | undefined }, redis: ProvidedRedis) {
  const ends = Object.values(parts).map((part): [string, Promise<Exit>][] =>
    part === undefined ? [] : [[part.process.name, part.process.exit]],
  );
  if (redis.private !== undefined) ends.push([["redis", redis.private.exit]]);
  return ends.flat();
}

type Options = {
  env: NodeJS.ProcessEnv;
  log: Logger;
  shutdown: Shutdown;
  print: (part: string) => (line: string) => void;
};

const BLOCK_TIME_MS = 1000;

/** A devnet that ends with dev; undefined, and said in the log, where what it needs is not installed. */
export async function provideDevnet({ env, log, shutdown, print }: Options): Promise<DevnetPart | undefined> {
  try {
    const devnet = await startDevnet({
      env,
      ports: {
        rpc: await freePort(8545),
        facilitator: await freePort(8546),
        control: await freePort(8547),
      },
      blockTimeMs: BLOCK_TIME_MS,
      onLine: print("devnet"),
    });
    shutdown.defer("devnet", () => devnet.part.kill("SIGTERM"));
    return devnet;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.program_missing") throw error;
    log.warn("dev.without_payments", { reason: error.message });
    return undefined;
  }
}

/** Passes a part's lines on: as they are, or, for a terminal, readable and with the part's name before them. */
export function createPrinter(pretty: boolean, print: (line: string) => void) {
  if (!pretty) return () => print;
  const toText = createPrettyLine({ colour: true });
  return (part: string) => (line: string) => print(`${part.padEnd(9)} ${toText(line)}`);
}
