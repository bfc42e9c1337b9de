import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createDue, createPaymentList } from "../../../shared/payments/list.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { delay, systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { unknown } from "./show.ts";

export type ReconcileOptions = { configDir: string; all?: boolean; timeout: number; json?: boolean };

const POLL_MS = 100;
/** How long a gateway that has taken a payment up may need to change its state. */
const UNDER_WAY_MS = 3000;
const AT_ONCE = 16;

type Outcome = {
  id: string;
  before: PaymentState | undefined;
  state: PaymentState | undefined;
  /** Whether a gateway took it up; undefined if no gateway looks after this payment. */
  looked: boolean | undefined;
};

/**
 * `postern payments reconcile`: makes payments due at once and waits until a gateway has looked at them. 1 if a payment is
 * unknown, or if no gateway has looked in time.
 */
export function reconcilePayments(
  deps: ProgramDeps,
  named: readonly string[],
  { all = false, timeout, json, configDir }: ReconcileOptions,
): Promise<number> {
  const { print, say, note, printError } = deps;
  return withRedis(deps, { configDir }, async ({ partition }) => {
    const pending = (all ? await inFlight(partition) : named).values();
    const push = createPush(partition, systemClock() + timeout * 1000);
    const outcomes: Outcome[] = [];
    const work = async (): Promise<void> => {
      for (const id of pending) {
        const outcome = await push(id);
        outcomes.push(outcome);
        if (json) print(jsonLine(toJson(outcome)));
        if (outcome.before !== undefined) say(`${inWords(outcome, outcome.before)}\n`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));

    if (all && outcomes.length === 0) note("no payment is in flight\n");
    const left = outcomes.filter(({ looked }) => looked === false).length;
    if (left > 0) {
      const isNone = outcomes.every(({ looked }) => looked !== true);
      const question = isNone ? ": is a gateway running? They stay due, and the next one looks at once" : "";
      printError(`no gateway has looked at ${left} of them within ${timeout} s${question}\n`);
    }
    const strangers = outcomes.filter(({ before }) => before === undefined);
    for (const { id } of strangers) printError(`${unknown(id)}\n`);
    return left > 0 || strangers.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

/** The payments that gateways look after, except those whose call the producer has, in the queue or failed. */
async function inFlight(partition: Partition): Promise<string[]> {
  const payments = createPaymentList(partition);
  const ids = new Set<string>();
  for await (const page of createDue(partition).ids()) {
    for (const payment of await payments.read(page)) {
      if (payment === undefined || payment.state === "QUEUED" || payment.state === "FAILED") continue;
      ids.add(payment.id);
    }
  }
  return [...ids];
}

/**
 * Makes one payment due and watches it. A gateway that takes it up moves its next due time, or takes it off the list of due
 * payments.
 */
function createPush(partition: Partition, deadline: number) {
  const [due, journal, payments] = [
    createDue(partition),
    createPaymentJournal(partition),
    createPaymentList(partition),
  ];

  async function look(id: string) {
    const [[payment], dueAt] = await Promise.all([payments.read([id]), due.at(id)]);
    return { state: payment?.state, dueAt };
  }

  async function watch(id: string, before: PaymentState, pushedAt: number): Promise<Outcome> {
    let until = deadline;
    let looked = false;
    for (;;) {
      const { state, dueAt } = await look(id);
      if (state !== before || dueAt === undefined) return { id, before, state, looked: true };
      const now = systemClock();
      if (dueAt !== pushedAt && !looked) [looked, until] = [true, Math.min(deadline, now + UNDER_WAY_MS)];
      if (now >= until) return { id, before, state, looked };
      await delay(POLL_MS);
    }
  }

  return async function push(id: string): Promise<Outcome> {
    const { state: before, dueAt } = await look(id);
    if (before === undefined || dueAt === undefined) return { id, before, state: before, looked: undefined };
    const pushedAt = systemClock();
    await journal.lookAgain(id, pushedAt);
    return watch(id, before, pushedAt);
  };
}

function inWords({ id, state, looked }: Outcome, before: PaymentState): string {
  const now = state?.toLowerCase() ?? "gone";
  if (looked === undefined) return `${id}: ${now}; ${nothingToDo(before)}`;
  if (!looked) return `${id}: ${now}; not looked at`;
  return before === state ? `${id}: looked at, still ${now}` : `${id}: ${before.toLowerCase()} is now ${now}`;
}

function nothingToDo(state: PaymentState): string {
  if (state === "REFUND_PENDING") return "a transfer closes it (postern payments refund-check)";
  return state === "REVIEW"
    ? "an operator decides (postern payments resolve)"
    : "at its end, there is nothing to look after";
}

function toJson({ id, before, state, looked }: Outcome) {
  return {
    call_id: id,
    state_before: before?.toLowerCase() ?? null,
    state: state?.toLowerCase() ?? null,
    looked: looked ?? null,
  };
}
