import { createContext, Script } from "node:vm";

const script = new Script("work()");
const idle = () => undefined;
const context = createContext({ work: idle }) as { work: () => unknown };

/**
 * Runs synchronous work, and ends it after `ms`, inside a regular expression too; undefined if it was not done by then. Only another
 * thread can end it, and starting one takes up to a millisecond.
 */
export function runBounded<Result>(work: () => Result, ms: number): Result | undefined {
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
