import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { delay, systemClock } from "../time/clock.ts";
import { answers } from "./answers.ts";
import { findRedisServer } from "./find-redis-server.ts";
import { freePort } from "./free-port.ts";
import { type Child, type Exit, spawnChild } from "./spawn-child.ts";

export type RedisServerOptions = {
  env: NodeJS.ProcessEnv;
  /** Where its data lies; without it a new temporary folder, which `stop` removes. */
  dir?: string | undefined;
  /** Without it a free one. */
  port?: number | undefined;
  /** Further arguments of redis-server; they win over those given here. */
  args?: readonly string[];
  detached?: boolean;
};

/** A Redis of one's own on 127.0.0.1, with the settings that the strict mode asks for. It ends with this process. */
export type PrivateRedis = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly dir: string;
  /** The end of the process that runs now, or ran last. */
  readonly exit: Promise<Exit>;
  /** Sends the signal and waits for the end; the data stays. */
  kill(signal: NodeJS.Signals): Promise<Exit>;
  /** Starts it again, ending it first if it runs: same port, same data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

const START_DEADLINE_MS = 15_000;
const BIND_TRIES = 5;

/** Starts a private Redis and resolves once it answers. */
export async function startRedis({
  env,
  dir,
  port,
  args = [],
  detached,
}: RedisServerOptions): Promise<PrivateRedis> {
  const command = findRedisServer(env);
  const home = dir ?? mkdtempSync(join(tmpdir(), "postern-redis-"));
  mkdirSync(home, { recursive: true });
  const launch = (chosen: number): Launch => ({
    port: chosen,
    child: spawnChild({ command, args: [...settings(chosen, home), ...args], env, cwd: home, detached }),
  });
  const removeOwn = () => dir === undefined && rmSync(home, { recursive: true, force: true });
  const first = port === undefined ? onAFreePort(launch) : ready(launch(port));
  let running = await first.catch((error: unknown) => {
    removeOwn();
    throw error;
  });
  const chosen = running.port;
  return {
    url: `redis://127.0.0.1:${chosen}`,
    port: chosen,
    get pid() {
      return running.child.pid;
    },
    dir: home,
    get exit() {
      return running.child.exit;
    },
    kill: (signal) => running.child.kill(signal),
    async restart() {
      await running.child.kill("SIGTERM");
      running = await ready(launch(chosen));
    },
    async stop() {
      await running.child.kill("SIGTERM");
      removeOwn();
    },
  };
}

type Launch = { port: number; child: Child };

/** The same as in config/docker/redis.conf; a test compares. */
function settings(port: number, dir: string): string[] {
  return [
    ...["--port", String(port), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir],
    ...["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--save", ""],
  ];
}

async function onAFreePort(launch: (port: number) => Launch): Promise<Launch> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ready(launch(await freePort()));
    } catch (error) {
      const lostRace = error instanceof Error && /address already in use/i.test(error.message);
      if (!lostRace || attempt === BIND_TRIES) throw error;
    }
  }
}

async function ready(launch: Launch): Promise<Launch> {
  const { child, port } = launch;
  const deadline = systemClock() + START_DEADLINE_MS;
  let ended = false;
  void child.exit.then(() => {
    ended = true;
  });
  while (!(await answers(port, child.pid))) {
    if (ended) throw new Error(`redis-server on port ${port} ended at once:\n${child.tail()}`);
    if (systemClock() > deadline) {
      await child.kill("SIGKILL");
      throw new Error(`redis-server on port ${port} does not answer:\n${child.tail()}`);
    }
    await delay(20);
  }
  return launch;
}
