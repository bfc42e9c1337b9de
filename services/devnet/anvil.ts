import { createRequire } from "node:module";
import { type Child, spawnChild } from "../../shared/dev/child.ts";
import { findProgram } from "../../shared/dev/find-program.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { delay, systemClock } from "../../shared/time/clock.ts";

export type Anvil = {
  readonly rpcUrl: string;
  /** Rejects when anvil ends without having been stopped. */
  readonly fatal: Promise<never>;
  stop(): Promise<void>;
};

export type AnvilOptions = {
  env: NodeJS.ProcessEnv;
  chainId: number;
  /** Without it, or with 0, a free one. */
  port: number | undefined;
};

const START_DEADLINE_MS = 15_000;
const BIND_TRIES = 5;
/** States of older blocks are forgotten, which anvil would else write to the user's home. */
const STATES_KEPT = 1000;

type Start = (port: number) => Promise<Anvil>;

/** Starts anvil on 127.0.0.1 and resolves once it answers. It ends with this process. */
export function startAnvil({ env, chainId, port }: AnvilOptions): Promise<Anvil> {
  const command = findAnvil(env);
  const start: Start = async (chosen) => {
    const child = spawnChild({ command, args: settings(chainId, chosen), env, detached: true });
    try {
      await untilAnswers(child, chosen);
      return running(child, `http://127.0.0.1:${chosen}`);
    } catch (cause) {
      await child.kill("SIGKILL");
      throw unavailable(`anvil does not start on 127.0.0.1:${chosen}\n${child.tail()}`, cause);
    }
  };
  return port ? onPort(port, start) : onAFreePort(start);
}

/** Looked at before the start: another anvil at this port would answer as if it were the one that was started. */
async function onPort(port: number, start: Start): Promise<Anvil> {
  if ((await freePort(port)) !== port) throw unavailable(`127.0.0.1:${port} is in use`);
  return start(port);
}

async function onAFreePort(start: Start): Promise<Anvil> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort());
    } catch (error) {
      const lostRace = /already in use/i.test(messageOf(error));
      if (!lostRace || attempt === BIND_TRIES) throw error;
    }
  }
}

/** With one slot in an epoch, `safe` is one block behind the head and `finalized` two. */
function settings(chainId: number, port: number): string[] {
  return [
    ...["--host", "127.0.0.1", "--port", String(port), "--chain-id", String(chainId), "--silent"],
    ...["--slots-in-an-epoch", "1", "--prune-history", String(STATES_KEPT)],
  ];
}

async function untilAnswers(child: Child, port: number): Promise<void> {
  const deadline = systemClock() + START_DEADLINE_MS;
  let ended = false;
  void child.exit.then(() => {
    ended = true;
  });
  while (!(await answers(port))) {
    if (ended) throw new Error("it ended at once");
    if (systemClock() > deadline) throw new Error("it does not answer");
    await delay(20);
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "anvil_nodeInfo", params: [] }),
      signal: AbortSignal.timeout(1000),
    });
    return "result" in ((await answer.json()) as object);
  } catch {
    return false;
  }
}

function running(child: Child, rpcUrl: string): Anvil {
  let stopping = false;
  const fatal = child.exit.then(({ code, signal }): Promise<never> => {
    if (stopping) return new Promise<never>(() => {});
    const reason = `anvil ended by itself (${signal ?? `code ${code}`})\n${child.tail()}`;
    throw new AppError("start.part_ended", { reason });
  });
  fatal.catch(() => {});
  return {
    rpcUrl,
    fatal,
    async stop() {
      stopping = true;
      await child.kill("SIGTERM");
    },
  };
}

function unavailable(reason: string, cause?: unknown): AppError {
  return new AppError("start.address_unavailable", { reason, cause });
}

/** The path of anvil: the one npm installs where it has a build for this machine, else from the PATH. Throws `start.program_missing`. */
export function findAnvil(env: NodeJS.ProcessEnv, packaged = packagedAnvil()): string {
  const path = packaged || findProgram(["anvil"], env);
  if (path !== undefined) return path;
  throw new AppError("start.program_missing", {
    reason: [
      "The devnet needs anvil, which is not installed. Install Foundry and run this again:",
      "  curl -L https://foundry.paradigm.xyz | bash",
      "  foundryup",
      "on Linux with an x64 processor, npm install does it (package @foundry-rs/anvil-linux-amd64)",
    ].join("\n"),
  });
}

function packagedAnvil(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve("@foundry-rs/anvil-linux-amd64/bin/anvil");
  } catch {
    return undefined;
  }
}
