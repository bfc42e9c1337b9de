import { isDeepStrictEqual } from "node:util";
import { eventually } from "../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import type { Balances, PaymentFixture } from "./payment-fixture.ts";
import { type Show, usdc } from "./show.ts";
import { offersOf } from "./views.ts";

/** The last scenario: every number of the demo, and whether they add up. */
export async function showCounts(demo: Demo): Promise<void> {
  const { show, world, payments } = demo;
  show.scenario("The counts");
  await eventually("an empty queue", async () => (await world.queue.look()).waiting === 0).catch(() => {});
  const accounts = payments && (await account(demo, payments));
  const counts = await count(demo, accounts?.settled);
  show.say("");
  for (const [name, number, note = ""] of countRows(counts)) sayRow(show, name, number, note);
  show.say("");
  const { calls, offers, injected, failed, waiting, ranOnce } = counts;
  const sum = `${calls} accepted = ${injected} injected + ${failed} failed + ${waiting} waiting`;
  checkSums(show, `${sum}; ${offers} offers, ${ranOnce} effects`, countSums(counts));
  if (payments === undefined || accounts === undefined) return;

  show.say("");
  showAccounts(show, payments, accounts);
  const { settled, charged } = accounts;
  const { found, expected } = accountSums(payments, accounts);
  const paid = `${settled.count} payments settled = ${charged.count} charges = ${accounts.ranOnce} paid jobs run`;
  checkSums(show, `${paid}; ${found.paid} USDC paid = ${found.got} USDC received`, { found, expected });
}

function sayRow(show: Show, name: string, number: number, note = ""): void {
  show.say(`${name.padEnd(46)}${String(number).padStart(5)}   ${note}`.trimEnd());
}

function checkSums(show: Show, line: string, { found, expected }: { found: object; expected: object }): void {
  if (isDeepStrictEqual(found, expected)) show.check(`It adds up: ${line}`, true, true);
  else show.check(`It does not add up: ${line}`, found, expected);
}

type Counts = Awaited<ReturnType<typeof count>>;

/** Counts calls and offers at their sources: the sender, the queue and the runner. */
async function count({ ledger, world, runner }: Demo, settled: Accounts["settled"] | undefined) {
  const ids = new Set([...ledger.accepted.keys(), ...(settled?.ids ?? [])]);
  const states = await Promise.all([...ids].map((id) => runner.stateOf(id).catch(() => "unknown")));
  const { runs, remembered, refused } = offersOf(world.logs.runner);
  const times = [...runs.values()];
  const ranOnce = times.filter((n) => n === 1).length;
  const ranAgain = times.filter((n) => n > 1).length;
  const { waiting, failed } = await world.queue.look();
  return {
    sent: ledger.sent,
    accepted: ledger.accepted.size,
    repeats: ledger.repeats,
    notCalls: ledger.notCalls,
    refused: ledger.refused,
    replayed: ledger.replayed,
    /** Calls whose payment has settled; undefined if nothing was sold. */
    paid: settled?.count,
    calls: ledger.accepted.size + (settled?.count ?? 0),
    /** Accepted and paid calls that the runner lists as done. */
    injected: states.filter((state) => state === "done").length,
    failed,
    waiting,
    /** Calls that ran to their end once, more than once, or without having been accepted or paid. */
    ranOnce,
    ranAgain,
    ranUnasked: [...runs.keys()].filter((id) => !ids.has(id)).length,
    offers: ranOnce + ranAgain + remembered.length + refused.length,
    offersRemembered: remembered.length,
    /** Of those, the demo's own offers. */
    askedAgain: ledger.askedAgain,
    offersRefused: refused.length,
    refusals: [...new Set(refused.map(({ code }) => String(code)))].join(", "),
  };
}

function countRows(counts: Counts): (readonly [name: string, count: number, note?: string])[] {
  return [
    ["webhooks sent", counts.sent],
    ["  accepted: new calls", counts.accepted],
    ["  accepted: a delivery known already", counts.repeats],
    ["  answered: handshakes, dropped events", counts.notCalls],
    ["  refused", counts.refused],
    ["calls on disk", counts.calls],
    ["  of accepted webhooks", counts.accepted],
    ...(counts.paid === undefined ? [] : [["  of settled payments", counts.paid] as const]),
    ["  injected: the runner has run them", counts.injected],
    ["  failed", counts.failed],
    ["  waiting", counts.waiting],
    ["  (replayed by an operator on the way)", counts.replayed],
    ["offers that reached the runner", counts.offers],
    ["  run: calls that had their one effect", counts.ranOnce],
    ["  run: calls that had a second effect", counts.ranAgain],
    ["  answered from memory", counts.offersRemembered, `${counts.askedAgain} of them asked for by the demo`],
    ["  refused", counts.offersRefused, counts.refusals],
  ];
}

function countSums(counts: Counts) {
  const { sent, accepted, repeats, notCalls, refused, calls, injected, ...rest } = counts;
  const { failed, waiting, ranOnce, ranAgain, ranUnasked } = rest;
  return {
    found: {
      webhooks: accepted + repeats + notCalls + refused,
      calls: injected + failed + waiting,
      failed,
      waiting,
      ranOnce,
      ranAgain,
      ranUnasked,
    },
    expected: {
      webhooks: sent,
      calls,
      failed: 0,
      waiting: 0,
      ranOnce: calls,
      ranAgain: 0,
      ranUnasked: 0,
    },
  };
}

/** All that was paid, each number from a source that does not know the others. */
type Accounts = {
  /** From the gateways' journal. */
  settled: { count: number; units: bigint; ids: ReadonlySet<string> };
  /** From the chain's logs. */
  charged: { count: number; units: bigint };
  /** From the runner's log: jobs of settled payments that ran to their end once. */
  ranOnce: number;
  /** From the chain's state. */
  after: Balances;
  /** How each balance changed. */
  changes: Balances;
};

async function account(
  { world }: Demo,
  { journal, chain, balances, before }: PaymentFixture,
): Promise<Accounts> {
  const [settled, charges, after] = await Promise.all([journal.settled(), chain.charges(), balances()]);
  const ids = new Set(settled.map(({ id }) => id));
  const { runs } = offersOf(world.logs.runner, (callId) => ids.has(callId));
  return {
    settled: { count: settled.length, units: sum(settled.map(({ units }) => units)), ids },
    charged: { count: charges.length, units: sum(charges.map(({ units }) => units)) },
    ranOnce: [...runs.values()].filter((times) => times === 1).length,
    after,
    changes: new Map([...after].map(([name, units]) => [name, units - (before.get(name) ?? 0n)])),
  };
}

function showAccounts(show: Show, { ledger, before }: PaymentFixture, accounts: Accounts): void {
  sayRow(show, "paid requests sent", ledger.sent);
  sayRow(show, "  answered 202, or the result: new payments", ledger.accepted.size);
  sayRow(show, "  answered 202: a payment that had its 202", ledger.repeats);
  sayRow(show, "  answered 503: to be sent again", ledger.open);
  sayRow(show, "  refused", ledger.refused);
  sayRow(show, "  not answered: the gateway was killed", ledger.unanswered);
  const { settled, charged, ranOnce, after, changes } = accounts;
  sayRow(show, "payments settled, by the gateway's journal", settled.count, `${usdc(settled.units)} USDC`);
  sayRow(show, "charges, by the chain's logs", charged.count, `${usdc(charged.units)} USDC`);
  sayRow(show, "paid jobs run once, by the runner's log", ranOnce);

  show.say("");
  const columns = (texts: readonly string[]) => texts.map((text) => text.padStart(18)).join("");
  show.say(`${"USDC".padEnd(22)}${columns(["before", "after", "change"])}`);
  for (const [name, change] of changes) {
    const numbers = [before.get(name) ?? 0n, after.get(name) ?? 0n, change];
    show.say(`${name.padEnd(22)}${columns(numbers.map(usdc))}`);
  }
  show.say("");
}

/** All of it follows from the journal: each settled payment was answered, charged and run, once each. */
function accountSums({ ledger }: PaymentFixture, { settled, charged, ranOnce, changes }: Accounts) {
  const seller = changes.get("seller") ?? 0n;
  const units = usdc(settled.units);
  return {
    found: {
      requests: ledger.accepted.size + ledger.repeats + ledger.open + ledger.refused + ledger.unanswered,
      accepted: [...ledger.accepted].toSorted(),
      charges: charged.count,
      jobs: ranOnce,
      settled: units,
      charged: usdc(charged.units),
      paid: usdc(seller - sum([...changes.values()])),
      got: usdc(seller),
    },
    expected: {
      requests: ledger.sent,
      accepted: [...settled.ids].toSorted(),
      charges: settled.count,
      jobs: settled.count,
      settled: units,
      charged: units,
      paid: units,
      got: units,
    },
  };
}

function sum(numbers: readonly bigint[]): bigint {
  return numbers.reduce((total, each) => total + each, 0n);
}
