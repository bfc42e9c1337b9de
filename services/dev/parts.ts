import type { Exit } from "../../shared/dev/child.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { startPricing, untilReady } from "../../shared/dev/stack.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";

export type Parts = Record<"webhooks" | "producer" | "runner", Part> &
  Record<"x402" | "pricing", Part | undefined>;

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
  /** Whether there is a pricing engine to start. */
  quotes: boolean;
};

/** Starts every part, one after the other; each is ready before the next is started. */
export async function startParts({ serviceId, sells, quotes, ...deps }: Wanted): Promise<Parts> {
  const start = createStart(deps);
  return {
    runner: await start("runner"),
    producer: await start("producer", FREE_OPS_PORT),
    webhooks: await start("webhooks", [
      ...FREE_OPS_PORT,
      ...(serviceId === undefined ? [] : ["--service-id", serviceId]),
    ]),
    x402: sells ? await start("x402", FREE_OPS_PORT) : undefined,
    pricing: quotes
      ? await started(deps, "pricing", (options) => startPricing({ ...options, configDir: deps.configDir }))
      : undefined,
  };
}

/** Starts a subcommand as a process of its own. */
function createStart(deps: Deps) {
  return (command: string, more: readonly string[] = []): Promise<Part> => {
    const args = [command, "--config-dir", deps.configDir, ...more];
    return started(deps, command, (options) =>
      startPart({ name: command, args, detached: true, ...options }),
    );
  };
}

type Start = (options: { env: NodeJS.ProcessEnv; onLine: (line: string) => void }) => Promise<Part>;

/** The part ends with dev. Resolves once it is ready; throws `start.part_ended` when it does not start. */
async function started({ env, shutdown, print }: Deps, name: string, start: Start): Promise<Part> {
  try {
    const part = await start({ env, onLine: print(name) });
    shutdown.defer(name, () => part.kill("SIGTERM"));
    await untilReady(part);
    return part;
  } catch (cause) {
    throw new AppError("start.part_ended", { reason: messageOf(cause), cause });
  }
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
