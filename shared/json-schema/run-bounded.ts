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

/**
 * Runs synchronous work, and ends it after `ms`, inside a regular expression too; undefined if it was not done by then. Only another
 * thread can end it, and starting one takes up to a millisecond.
 */
export function runBounded<Result>(work: () => Result, ms: number): Result | undefined {
  const { script, context } = placed();
  context.work = work;
  try {
    return script.runInContext(context, { timeout: ms }) as Result;
  } catch (error) {
    // Of the context's realm, so no Error of ours.
    if ((error as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  } finally {
    context.work = idle;
  }
}
