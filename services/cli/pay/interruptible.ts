import { PayFailure } from "./pay-failure.ts";

/** Does work whose outcome is unknown until it ends: a Ctrl-C aborts its signal with that. A second one ends the process. */
export async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new PayFailure("interrupted", { outcome: "unknown" }));
  process.once("SIGINT", interrupt);
  try {
    return await work(controller.signal);
  } finally {
    process.off("SIGINT", interrupt);
  }
}
