import { createContext, Script } from "node:vm";

const idle = () => undefined;
let sandbox: { script: Script; context: { work: () => unknown } } | undefined;

/**
 * Creates the script and its context (node:vm), which are needed for the time limit. It creates them on first use,
 * because a context uses half a megabyte and most configurations have no schema.
 */
function openSandbox() {
  sandbox ??= {
    script: new Script("work()"),
    context: createContext({ work: idle }) as { work: () => unknown },
  };
  return sandbox;
}

/** Maximum number of attempts. Work is tried again only if other processes kept this process from the CPU. */
const TRIES = 4;

/**
 * Runs synchronous work and stops it after `ms`, even inside a regular expression. Returns undefined if the work was
 * not done by then. Node starts another thread that stops the work; starting it takes up to a millisecond. That thread
 * measures wall-clock time. If this process had the CPU for less than half of that time, the work is tried again,
 * because it may not be slow.
 */
export function runBounded<Result>(work: () => Result, ms: number): Result | undefined {
  for (let tries = 1; ; tries++) {
    const before = process.cpuUsage();
    const done = runOnce(work, ms);
    if (done !== undefined) return done.result;
    const { user, system } = process.cpuUsage(before);
    if (tries === TRIES || user + system >= (ms * 1000) / 2) return undefined;
  }
}

function runOnce<Result>(work: () => Result, ms: number): { result: Result } | undefined {
  const { script, context } = openSandbox();
  context.work = work;
  try {
    return { result: script.runInContext(context, { timeout: ms }) as Result };
  } catch (error) {
    // The error was created in the script's context, which has its own class Error. So `instanceof Error` would be
    // false.
    if ((error as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  } finally {
    context.work = idle;
  }
}
