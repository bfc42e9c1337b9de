import { createRequire } from "node:module";
import { type Child, spawnChild, waitUntilAnswers } from "../../../shared/dev/child.ts";
import { findProgram } from "../../../shared/dev/find-program.ts";
import { freePort, onFreePort } from "../../../shared/dev/free-port.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";

type Anvil = {
  readonly rpcUrl: string;
  /** Rejects if anvil ends without being stopped. */
  readonly fatal: Promise<never>;
  stop(): Promise<void>;
};

type AnvilOptions = {
  env: NodeJS.ProcessEnv;
  chainId: number;
  /** Port for anvil. If it is undefined or 0, a free port is chosen. */
  port: number | undefined;
};

/**
 * Number of recent blocks whose states anvil keeps. Without this limit, anvil would write the states of older blocks to
 * files in the user's home folder.
 */
const STATES_KEPT = 1000;

/**
 * Starts anvil, a local Ethereum node for development, on 127.0.0.1. Resolves once anvil answers. Anvil ends when this
 * process ends. Throws `start.program_missing` and `start.address_unavailable`.
 */
export async function startAnvil({ env, chainId, port: wanted }: AnvilOptions): Promise<Anvil> {
  const command = findAnvil(env);
  const start = async (port: number): Promise<Anvil> => {
    const child = spawnChild({ command, args: settings(chainId, port), env, detached: true });
    try {
      await waitUntilAnswers(`anvil on 127.0.0.1:${port}`, child, () => answers(port));
      return running(child, `http://127.0.0.1:${port}`);
    } catch (cause) {
      throw unavailable(messageOf(cause), cause);
    }
  };
  if (!wanted) return onFreePort(start);
  // If another anvil already runs at this port, it would answer the check above, and the new one would seem to run.
  if ((await freePort(wanted)) !== wanted) throw unavailable(`127.0.0.1:${wanted} is in use`);
  return start(wanted);
}

/**
 * Returns anvil's command line. With one slot in an epoch, the block `safe` is one behind the newest block, and
 * `finalized` is two behind. So payments become final after two blocks.
 */
function settings(chainId: number, port: number): string[] {
  return [
    ...["--host", "127.0.0.1", "--port", String(port), "--chain-id", String(chainId), "--silent"],
    ...["--slots-in-an-epoch", "1", "--prune-history", String(STATES_KEPT)],
  ];
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
    const reason = `anvil ended unexpectedly (${signal ?? `code ${code}`})\n${child.tail()}`;
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

/** Returns the path of anvil: that of the npm package, if it has a build for this machine, or else the one on PATH. */
export function findAnvil(env: NodeJS.ProcessEnv, packaged = packagedAnvil()): string {
  const path = packaged || findProgram(["anvil"], env);
  if (path !== undefined) return path;
  throw new AppError("start.program_missing", {
    reason: [
      "The devnet needs anvil, which is not installed. Install Foundry and run this again:",
      "  curl -L https://foundry.paradigm.xyz | bash",
      "  foundryup",
      "or, on Linux with an x64 processor: npm install @foundry-rs/anvil-linux-amd64",
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
