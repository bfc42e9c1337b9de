import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createDue, createPaymentList, type PaymentSummary } from "../../../shared/payments/list.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { delay, systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { withRedis } from "../with-redis.ts";
import { unknown } from "./show.ts";

export type ReconcileOptions = { configDir: string; all?: boolean; timeout: number; json?: boolean };

const POLL_MS = 100;
/** A gateway that took a payment up is given so long to get further with it. */
const UNDER_WAY_MS = 3000;
const AT_ONCE = 16;

type Outcome = {
  id: string;
  before: PaymentState | undefined;
  state: PaymentState | undefined;
  /** Whether a gateway took it up; undefined where there is nothing to look after. */
  looked: boolean | undefined;
};

/**
 * `postern payments reconcile`: makes payments due at once and waits for a gateway to look. 1 when one is unknown, or no
 * gateway has looked in time.
 */
export function reconcilePayments(
  deps: ProgramDeps,
  named: readonly string[],
  options: ReconcileOptions,
): Promise<number> {
  return withRedis(deps, options, async ({ redis }) => {
    const ids = options.all ? await underWay(redis) : named;
    const deadline = systemClock() + options.timeout * 1000;
    const push = createPush(redis, deadline);
    const outcomes: Outcome[] = [];
    const queue = ids.values();
    const work = async (): Promise<void> => {
      for (const id of queue) {
        const outcome = await push(id);
        outcomes.push(outcome);
        deps.print(options.json ? `${JSON.stringify(toJson(outcome))}\n` : `${inWords(outcome)}\n`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return conclude(deps, outcomes, options);
  });
}

function conclude(
  { printError }: ProgramDeps,
  outcomes: readonly Outcome[],
  options: ReconcileOptions,
): number {
  if (options.all && outcomes.length === 0) printError("no payment is under way\n");
  const left = outcomes.filter(({ looked }) => looked === false);
  if (left.length > 0) {
    const none = left.length === outcomes.filter(({ looked }) => looked !== undefined).length;
    const question = none ? ": is a gateway running? They stay due, and the next one looks at once" : "";
    printError(`no gateway has looked at ${left.length} of them within ${options.timeout} s${question}\n`);
  }
  const isUnknown = outcomes.some(({ before }) => before === undefined);
  return left.length > 0 || isUnknown ? EXIT.failed : EXIT.ok;
}

/** A call in its queue, or failed there, is the producer's. */
async function underWay(redis: Redis): Promise<string[]> {
  const payments = createPaymentList(redis);
  const ids = new Set<string>();
  for await (const page of createDue(redis).ids()) {
    for (const payment of await payments.read(page)) {
      if (payment !== undefined && !isQueued(payment)) ids.add(payment.id);
    }
  }
  return [...ids];
}

function isQueued({ state }: PaymentSummary): boolean {
  return state === "QUEUED" || state === "FAILED";
}

/** Makes one payment due and watches it: whoever takes it up puts off when it is due next, or takes it from the list. */
function createPush(redis: Redis, deadline: number) {
  const [due, journal, payments] = [createDue(redis), createPaymentJournal(redis), createPaymentList(redis)];
  const look: Look = async (id) => {
    const [[payment], dueAt] = await Promise.all([payments.read([id]), due.at(id)]);
    return { state: payment?.state, dueAt };
  };
  return async function push(id: string): Promise<Outcome> {
    const { state: before, dueAt } = await look(id);
    if (before === undefined || dueAt === undefined) return { id, before, state: before, looked: undefined };
    const pushedAt = systemClock();
    await journal.lookAgain(id, pushedAt);
    return watch({ id, before, pushedAt }, look, deadline);
  };
}

type Look = (id: string) => Promise<{ state: PaymentState | undefined; dueAt: number | undefined }>;
type Pushed = { id: string; before: PaymentState; pushedAt: number };

async function watch({ id, before, pushedAt }: Pushed, look: Look, deadline: number): Promise<Outcome> {
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

function inWords({ id, before, state, looked }: Outcome): string {
  if (before === undefined) return unknown(id);
  const now = state?.toLowerCase() ?? "gone";
  if (looked === undefined) return `${id}: ${now}; ${nothingToDo(before)}`;
  if (!looked) return `${id}: ${now}; not looked at`;
  return before === state ? `${id}: looked at, still ${now}` : `${id}: ${before.toLowerCase()} is now ${now}`;
}

function nothingToDo(state: PaymentState): string {
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
