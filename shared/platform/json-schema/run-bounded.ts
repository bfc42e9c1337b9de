import { createContext, Script } from "node:vm";

const idle = () => undefined;
let place: { script: Script; context: { work: () => unknown } } | undefined;

/** A context takes half a megabyte, and most configurations have no schema. */
function placed() {
  place ??= {
    script: new Script("work()"),
    context: createContext({ work: idle }) as { work: () => unknown },
  };
  return place;
}

/** So often work begins again that was ended while the process hardly ran. */
const TRIES = 4;

/**
 * Runs synchronous work, and ends it after `ms`, inside a regular expression too; undefined if it was not done by then. Only another
 * thread can end it, and starting one takes up to a millisecond. That thread knows the time of the clock alone: on a machine that gave this
 * process less than half of it the work was not slow, and begins again.
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
  const { script, context } = placed();
  context.work = work;
  try {
    return { result: script.runInContext(context, { timeout: ms }) as Result };
  } catch (error) {
    // Of the context's realm, so no Error of ours.
    if ((error as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  } finally {
    context.work = idle;
  }
}
