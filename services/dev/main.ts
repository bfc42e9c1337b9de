import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ProvidedRedis, provideRedis } from "../../shared/dev/provide-redis.ts";
import type { Exit } from "../../shared/dev/spawn-child.ts";
import type { Part } from "../../shared/dev/start-part.ts";
import { runService, type Service, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { describe, summarise } from "./describe-dev.ts";
import { readOwn, wantsDevnet, writeEffectiveConfig } from "./effective-config.ts";
import { endedByItself, type Parts, startParts } from "./parts.ts";
import { createPrinter } from "./printer.ts";
import { provideDevnet } from "./provide-devnet.ts";

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
