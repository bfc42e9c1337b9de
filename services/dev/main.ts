import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exit } from "../../shared/child-process/spawn-child.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { provideRedis } from "../../shared/private-redis/provide-redis.ts";
import { describe, summarise } from "./describe-dev.ts";
import { writeEffectiveConfig } from "./effective-config.ts";
import { createStartPart, endedByItself } from "./parts.ts";
import { createPrinter } from "./printer.ts";

export type DevProcess = ServiceOptions & { configDir: string | undefined; serviceId: string | undefined };

/** Every part of Postern on this machine, with a Redis of its own, until a signal comes or a part ends by itself. */
export function runDev({ configDir, serviceId, ...options }: DevProcess): Promise<number> {
  const { env, pretty } = options;
  process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"));
  return runService("dev", options, async ({ log, shutdown }) => {
    const home = mkdtempSync(join(tmpdir(), "postern-dev-"));
    shutdown.defer("temporary folder", () => rmSync(home, { recursive: true, force: true }));

    const redis = await provideRedis({ env, dir: join(home, "redis"), detached: true });
    shutdown.defer("redis", () => redis.private?.stop());

    const dir = join(home, "config");
    const config = await writeEffectiveConfig({ source: configDir, target: dir, redisUrl: redis.url, env });
    const start = createStartPart({
      configDir: dir,
      env,
      shutdown,
      print: createPrinter(pretty, console.log),
    });
    const parts = {
      runner: await start("runner"),
      producer: await start("producer", ["--ops-address", "127.0.0.1:0"]),
      webhooks: await start("webhooks", [
        ...["--ops-address", "127.0.0.1:0"],
        ...(serviceId === undefined ? [] : ["--service-id", serviceId]),
      ]),
    };

    const summary = summarise(config, parts, redis.url);
    if (pretty) console.log(describe(summary));
    else log.info("dev.ready", summary);

    const ends: [string, Promise<Exit>][] = Object.values(parts).map(({ process }) => [
      process.name,
      process.exit,
    ]);
    if (redis.private !== undefined) ends.push(["redis", redis.private.exit]);
    return { fatal: endedByItself(ends) };
  });
}
