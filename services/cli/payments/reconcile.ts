import type { Operations } from "../../../shared/console/contract/contract.ts";
import { unknownPayment } from "../../../shared/console/payments.ts";
import type { Reconciled } from "../../../shared/console/reconcile.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { callIdsOf } from "../call-ids.ts";
import { pagesOf } from "../pagination.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ReconcileOptions = OperationTarget & { all?: boolean; wait: number; json?: boolean };

const AT_ONCE = 16;
const PAGE_MAX = 500;

/**
 * `postern payments reconcile`: payment gateways check each payment with an unknown outcome at certain times. This
 * command makes the next check due now, and waits until a gateway has done it. Exit code 1 if a payment is unknown, or
 * if no gateway has checked it in time.
 */
export function reconcilePayments(
  deps: ProgramDeps,
  named: readonly string[],
  { all = false, wait, json, ...operated }: ReconcileOptions,
): Promise<number> {
  const { print, say, note, printError } = deps;
  return withOperations(deps, operated, async (operations) => {
    const pending = (all ? await readInFlightIds(operations) : await callIdsOf(operations, named)).values();
    const deadline = systemClock() + wait * 1000;
    const outcomes: Reconciled[] = [];
    const work = async (): Promise<void> => {
      for (const id of pending) {
        const outcome = await reconcileUntil(operations, id, deadline);
        outcomes.push(outcome);
        if (json) print(jsonLine(outcome));
        if (outcome.state_before !== null) say(`${inWords(outcome, outcome.state_before)}\n`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));

    if (all && outcomes.length === 0) note("no payment has to be checked\n");
    const left = outcomes.filter(({ looked }) => looked === false).length;
    if (left > 0) {
      const isNone = outcomes.every(({ looked }) => looked !== true);
      const advice = isNone
        ? ": make sure that a gateway is running; it then checks these payments at once"
        : "";
      printError(`no gateway checked ${counted(left, "payment")} within ${wait} s${advice}\n`);
    }
    const strangers = outcomes.filter(({ state_before }) => state_before === null);
    for (const { call_id } of strangers) printError(`${unknownPayment(call_id).message}\n`);
    return left > 0 || strangers.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

/** Maximum time for which one request waits until a gateway has checked the payment. */
const WAIT_MS_MAX = 30_000;

async function reconcileUntil(operations: Operations, id: string, deadline: number): Promise<Reconciled> {
  for (;;) {
    const left = Math.max(0, deadline - systemClock());
    const wait_ms = Math.min(WAIT_MS_MAX, Math.round(left));
    const outcome = await operations.reconcilePayment({ call_id: id, wait_ms });
    if (outcome.looked !== false || left <= WAIT_MS_MAX) return outcome;
  }
}

/**
 * Returns the ids of all payments whose outcome is not known yet. A set, because a payment that is checked while the
 * pages are read may appear on two of them.
 */
async function readInFlightIds({ listPaymentsInFlight }: Operations): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  const read = (cursor?: string) => listPaymentsInFlight({ limit: PAGE_MAX, cursor });
  for await (const id of pagesOf(read, ({ call_ids }) => call_ids)) ids.add(id);
  return ids;
}

function inWords({ call_id: id, state, looked }: Reconciled, before: string): string {
  const now = state ?? "no longer kept";
  if (looked === null) return `${id}: ${now}; ${nothingToDo(before)}`;
  if (!looked) return `${id}: ${now}; not checked`;
  return before === state
    ? `${id}: checked: no change (${stateWords(now)})`
    : `${id}: was ${before}, is now ${now}`;
}

/** Formats the state of a payment. Once a payment is settled, its state is that of its call. */
function stateWords(state: string): string {
  return ["queued", "failed", "injected", "discarded"].includes(state) ? `paid, call ${state}` : state;
}

function nothingToDo(state: string): string {
  if (state === "refund_pending") return "a refund check closes it (postern refunds check)";
  return state === "review"
    ? "an operator must decide (postern payments resolve)"
    : "it has ended, so there is nothing to check";
}
