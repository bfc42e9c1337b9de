import { messageOf } from "../../shared/errors/app-error.ts";
import { createReconcile, type ReconcileDeps } from "./reconcile.ts";

const EVERY_MS = 1000;
const AT_ONCE = 16;
const AFTER_FAILURE_MS = 5000;
/** Time for reads of the chain, beside a settle request. */
const READING_MS = 5000;

/** Looks, every second, after the payments that are due. Resolves `stop` when the last look has ended. */
export function startReconciler(deps: ReconcileDeps): { stop(): Promise<void> } {
  const reconcile = createReconcile(deps);
  const { journal, clock, log } = deps;
  // No other replica takes the same payment meanwhile; one that dies holds it up for as long.
  const heldMs = deps.settleTimeoutMs + READING_MS;
  let stopped = false;
  let busy = false;
  let round: Promise<void> = Promise.resolve();

  /** Until nothing is due any more. */
  async function look(): Promise<void> {
    let taken = AT_ONCE;
    while (taken === AT_ONCE && !stopped) {
      const now = clock();
      const ids = await journal.takeDue({ now, until: now + heldMs, count: AT_ONCE });
      await Promise.all(ids.map((id) => reconcile(id).catch((error) => delayed(id, error))));
      taken = ids.length;
    }
  }

  async function delayed(id: string, error: unknown): Promise<void> {
    log.warn("payment.reconcile_failed", { callId: id, reason: messageOf(error) });
    await journal.lookAgain(id, clock() + AFTER_FAILURE_MS).catch(() => {});
  }

  const timer = setInterval(() => {
    if (busy || stopped) return;
    busy = true;
    round = look()
      .catch((error) => log.warn("payment.reconcile_failed", { reason: messageOf(error) }))
      .finally(() => {
        busy = false;
      });
  }, EVERY_MS);

  return {
    stop: async () => {
      stopped = true;
      clearInterval(timer);
      await round;
    },
  };
}
