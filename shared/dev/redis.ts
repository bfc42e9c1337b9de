import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../platform/errors/app-error.ts";
import { type Child, type Exit, spawnChild, waitUntilAnswers } from "./child.ts";
import { findProgram, installPackages } from "./find-program.ts";
import { onFreePort } from "./free-port.ts";

type RedisServerOptions = {
  env: NodeJS.ProcessEnv;
  /** Folder of Redis's data. Default: a new temporary folder, which `stop` removes. */
  dir?: string | undefined;
  /** Port of Redis. Default: a free port. */
  port?: number | undefined;
  /** Further arguments of redis-server. They override the settings below. */
  args?: readonly string[];
  detached?: boolean;
};

/** A Redis on 127.0.0.1 with the settings that `durability = "strict"` requires. It ends when this process ends. */
export type PrivateRedis = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly dir: string;
  /** Resolves when the current process ends. Already resolved if no process runs. */
  readonly exit: Promise<Exit>;
  /** Sends the signal and waits until Redis has ended. The data stays. */
  kill(signal: NodeJS.Signals): Promise<Exit>;
  /** Starts Redis again, on the same port with the same data. If Redis still runs, ends it first. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

type ProvidedRedis = {
  readonly url: string;
  /**
   * The Redis that this program has started. Undefined if REDIS_URL names another one, which this program must not
   * stop.
   */
  readonly private?: PrivateRedis;
};

/** Returns the Redis that REDIS_URL names; if REDIS_URL is not set, starts a private one. */
export async function provideRedis(options: RedisServerOptions): Promise<ProvidedRedis> {
  const url = options.env["REDIS_URL"];
  if (url) return { url };
  const redis = await startRedis(options);
  return { url: redis.url, private: redis };
}

/** Starts a private Redis and resolves once it answers. */
export async function startRedis(options: RedisServerOptions): Promise<PrivateRedis> {
  const { env, dir, port: wanted, args = [], detached } = options;
  const command = findRedisServer(env);
  const home = dir ?? mkdtempSync(join(tmpdir(), "postern-redis-"));
  mkdirSync(home, { recursive: true });
  const launch = async (port: number) => {
    const child = spawnChild({ command, args: [...settings(port, home), ...args], env, cwd: home, detached });
    await waitUntilAnswers(`redis-server on port ${port}`, child, () => answers(port, child.pid));
    return { port, child };
  };
  const removeOwn = () => dir === undefined && rmSync(home, { recursive: true, force: true });
  const first = wanted === undefined ? onFreePort(launch) : launch(wanted);
  let { port, child } = await first.catch((error: unknown) => {
    removeOwn();
    throw error;
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return child.pid;
    },
    dir: home,
    get exit() {
      return child.exit;
    },
    kill: (signal) => child.kill(signal),
    async restart() {
      await end(child);
      ({ port, child } = await launch(port));
    },
    async stop() {
      await end(child);
      removeOwn();
    },
  };
}

/**
 * Ends Redis. It sends the signal repeatedly, because Redis ignores a request to end while it writes its first
 * append-only file.
 */
async function end(child: Child): Promise<void> {
  const again = setInterval(() => child.kill("SIGTERM"), 500);
  await child.kill("SIGTERM");
  clearInterval(again);
}

/** Settings of redis-server. They equal those in config/docker/redis.conf; a test compares them. */
function settings(port: number, dir: string): string[] {
  return [
    ...["--port", String(port), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir],
    ...["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--save", ""],
  ];
}

const ANSWER_TIMEOUT_MS = 1000;

/**
 * Returns whether the Redis at this port has loaded its data, accepts commands and is the process `pid`. The pid is
 * compared because another server may have taken the port. This uses a plain socket, because a client library would
 * keep reconnecting.
 */
function answers(port: number, pid: number): Promise<boolean> {
  return new Promise((resolve) => {
    let reply = "";
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\nINFO server\r\n"));
    const settle = (outcome: boolean) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => settle(false));
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
 * Finds a Redis or Valkey server on the PATH and returns its path. If it finds no server, installs the package of the
 * distribution where that is allowed (`installPackages`). If this fails too, throws `start.program_missing`, with
 * instructions.
 */
export function findRedisServer(env: NodeJS.ProcessEnv): string {
  const present = findProgram(NAMES, env);
  if (present !== undefined) return present;
  installPackages(["redis-server"], env);
  const installed = findProgram(NAMES, env);
  if (installed !== undefined) return installed;
  throw new AppError("start.program_missing", {
    reason: [
      "No redis-server or valkey-server on the PATH. Install one and run this again:",
      "  Debian, Ubuntu  sudo apt-get install -y redis-server",
      "  Fedora          sudo dnf install -y valkey",
      "  macOS           brew install redis",
      "or set REDIS_URL to an existing Redis, for example REDIS_URL=redis://127.0.0.1:6379",
    ].join("\n"),
  });
}
