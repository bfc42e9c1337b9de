import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../platform/errors/app-error.ts";
import { type Child, type Exit, spawnChild, untilAnswers } from "./child.ts";
import { findProgram, installPackages } from "./find-program.ts";
import { onFreePort } from "./free-port.ts";

type RedisServerOptions = {
  env: NodeJS.ProcessEnv;
  /** The folder of its data; without it a new temporary one, which `stop` removes. */
  dir?: string | undefined;
  /** Without it a free one. */
  port?: number | undefined;
  /** Further arguments of redis-server; they win over those given here. */
  args?: readonly string[];
  detached?: boolean;
};

/** A Redis on 127.0.0.1 with the settings that the strict mode asks for. It ends with this process. */
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

type ProvidedRedis = {
  readonly url: string;
  /** Absent if the Redis is the one of REDIS_URL, which nobody here may stop. */
  readonly private?: PrivateRedis;
};

/** The Redis of REDIS_URL if that is set, else a private one. */
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
    await untilAnswers(`redis-server on port ${port}`, child, () => answers(port, child.pid));
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

/** Asks again until it ends: Redis refuses to end while it writes its first append-only file. */
async function end(child: Child): Promise<void> {
  const again = setInterval(() => child.kill("SIGTERM"), 500);
  await child.kill("SIGTERM");
  clearInterval(again);
}

/** The same as in config/docker/redis.conf; a test compares. */
function settings(port: number, dir: string): string[] {
  return [
    ...["--port", String(port), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir],
    ...["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--save", ""],
  ];
}

const ANSWER_TIMEOUT_MS = 1000;

/**
 * Whether the Redis at this port has loaded its data, takes commands and is the process `pid`: another server may have
 * taken the port meanwhile. Speaks the protocol itself, because a client library would keep reconnecting.
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
 * The path of a Redis or Valkey server: from the PATH, else installed from the distribution's packages if that is allowed.
 * Throws `start.program_missing` with what to run.
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
