import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../errors/app-error.ts";
import { delay, systemClock } from "../time/clock.ts";
import { type Child, type Exit, spawnChild } from "./child.ts";
import { findProgram, installPackage } from "./find-program.ts";
import { freePort } from "./free-port.ts";

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

const PATIENCE_MS = 1000;

/**
 * Whether the Redis at this port has loaded its data, takes commands and is the process `pid`: another server may have
 * taken the port in the meantime. Speaks the protocol itself, since a client library would go on to reconnect.
 */
export function answers(port: number, pid: number): Promise<boolean> {
  return new Promise((resolve) => {
    let reply = "";
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\nINFO server\r\n"));
    const settle = (outcome: boolean) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.setTimeout(PATIENCE_MS, () => settle(false));
    socket.on("error", () => settle(false));
    socket.on("close", () => settle(false));
    socket.on("data", (chunk) => {
      reply += chunk.toString("latin1");
      if (reply.startsWith("-")) settle(false);
      const answered = /^process_id:(\d+)\r$/m.exec(reply)?.[1];
      if (answered !== undefined) settle(reply.startsWith("+PONG") && Number(answered) === pid);
    });
  });
}

const NAMES = ["redis-server", "valkey-server"];

/**
 * The path of a Redis or Valkey server: from the PATH, else installed from the distribution's packages where that is
 * allowed. Throws `start.program_missing` with what to run.
 */
export function findRedisServer(env: NodeJS.ProcessEnv): string {
  const present = findProgram(NAMES, env);
  if (present !== undefined) return present;
  installPackage("redis-server", env);
  const installed = findProgram(NAMES, env);
  if (installed !== undefined) return installed;
  throw new AppError("start.program_missing", {
    reason: [
      "No redis-server or valkey-server on the PATH. Install one and run this again:",
      "  Debian, Ubuntu  sudo apt-get install -y redis-server",
      "  Fedora          sudo dnf install -y valkey",
      "  macOS           brew install redis",
      "or set REDIS_URL to a Redis that may be used, for example REDIS_URL=redis://127.0.0.1:6379",
    ].join("\n"),
  });
}

export type ProvidedRedis = {
  readonly url: string;
  /** Absent where the Redis is REDIS_URL's, which is nobody's to stop. */
  readonly private?: PrivateRedis;
};

/** The Redis of REDIS_URL if that is set, else a private one. */
export async function provideRedis(options: RedisServerOptions): Promise<ProvidedRedis> {
  const url = options.env["REDIS_URL"];
  if (url) return { url };
  const redis = await startRedis(options);
  return { url: redis.url, private: redis };
}
