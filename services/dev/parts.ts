import type { Exit } from "../../shared/child-process/spawn-child.ts";
import { type Part, startPart } from "../../shared/child-process/start-part.ts";
import { untilReady } from "../../shared/child-process/until-ready.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";

export type Parts = { webhooks: Part; producer: Part; runner: Part; x402: Part | undefined };

type Deps = {
  configDir: string;
  env: NodeJS.ProcessEnv;
  shutdown: Shutdown;
  print: (part: string) => (line: string) => void;
};

const FREE_OPS_PORT = ["--ops-address", "127.0.0.1:0"];

type Wanted = Deps & {
  serviceId: string | undefined;
  /** Whether there is an x402 gateway to start. */
  sells: boolean;
};

/** Starts every part, one after the other; each is ready before the next is started. */
export async function startParts({ serviceId, sells, ...deps }: Wanted): Promise<Parts> {
  const start = createStartPart(deps);
  return {
    runner: await start("runner"),
    producer: await start("producer", FREE_OPS_PORT),
    webhooks: await start("webhooks", [
      ...FREE_OPS_PORT,
      ...(serviceId === undefined ? [] : ["--service-id", serviceId]),
    ]),
    x402: sells ? await start("x402", FREE_OPS_PORT) : undefined,
  };
}

/** Starts a subcommand as a process of its own, which ends with dev, and waits until it is ready; throws `start.part_ended` when it does not start. */
function createStartPart({ configDir, env, shutdown, print }: Deps) {
  return async function start(command: string, args: readonly string[] = []): Promise<Part> {
    const all = [command, "--config-dir", configDir, ...args];
    try {
      const part = await startPart({ name: command, args: all, env, detached: true, onLine: print(command) });
      shutdown.defer(command, () => part.kill("SIGTERM"));
      await untilReady(part);
      return part;
    } catch (cause) {
      throw new AppError("start.part_ended", { reason: messageOf(cause), cause });
    }
  };
}

/** Rejects when the first of them ends. */
export function endedByItself(ends: readonly [name: string, exit: Promise<Exit>][]): Promise<never> {
  const first = ends.map(async ([name, exit]) => {
    const { code, signal } = await exit;
    const reason = `${name} ended by itself (${signal ?? `exit code ${code}`})`;
    throw new AppError("start.part_ended", { reason });
  });
  const fatal = Promise.race(first);
  fatal.catch(() => {});
  return fatal;
}
