import { isDeepStrictEqual } from "node:util";
import { type Counts, count } from "../counts.ts";
import type { Scene } from "../scene.ts";
import { showAccounts } from "./paid/show-accounts.ts";

/** Every number of the demo, and whether they add up. */
export const finalCounts: Scene = {
  title: "The counts",
  async play(demo) {
    const { stage, shop } = demo;
    const { counts, accounts } = await count(demo);
    stage.say("");
    for (const [name, number, note = ""] of rows(counts))
      stage.say(`${name.padEnd(46)}${String(number).padStart(5)}   ${note}`.trimEnd());
    stage.say("");
    const line = inOneLine(counts);
    if (isDeepStrictEqual(sums(counts), wanted(counts))) stage.check(`It adds up: ${line}`, true, true);
    else stage.check(`It does not add up: ${line}`, sums(counts), wanted(counts));
    if (shop !== undefined && accounts !== undefined) showAccounts(stage, shop, accounts);
  },
};

function rows(counts: Counts): (readonly [name: string, count: number, note?: string])[] {
  return [
    ["webhooks sent", counts.sent],
    ["  accepted with 202: new calls", counts.accepted],
    ["  accepted with 202: a delivery known already", counts.repeats],
    ["  refused", counts.refused],
    ["calls on disk", callsIn(counts)],
    ["  of accepted webhooks", counts.accepted],
    ...(counts.paid === undefined ? [] : [["  of settled payments", counts.paid] as const]),
    ["  injected: the runner has run them", counts.injected],
    ["  failed", counts.failed],
    ["  waiting", counts.waiting],
    ["  (replayed by an operator on the way)", counts.replayed],
    ["offers that reached the runner", offers(counts)],
    ["  run: calls that had their one effect", counts.ranOnce],
    ["  run: calls that had a second effect", counts.ranAgain],
    ["  answered from memory", counts.offersRemembered, `${counts.askedAgain} of them asked for by the demo`],
    ["  refused", counts.offersRefused, counts.refusals],
  ];
}

function callsIn({ accepted, paid = 0 }: Counts): number {
  return accepted + paid;
}

function offers({ ranOnce, ranAgain, offersRemembered, offersRefused }: Counts): number {
  return ranOnce + ranAgain + offersRemembered + offersRefused;
}

function sums(counts: Counts) {
  const { failed, waiting, ranOnce, ranAgain, ranUnasked } = counts;
  return {
    webhooks: counts.accepted + counts.repeats + counts.refused,
    calls: counts.injected + failed + waiting,
    failed,
    waiting,
    ranOnce,
    ranAgain,
    ranUnasked,
  };
}

function wanted(counts: Counts): ReturnType<typeof sums> {
  return {
    webhooks: counts.sent,
    calls: callsIn(counts),
    failed: 0,
    waiting: 0,
    ranOnce: callsIn(counts),
    ranAgain: 0,
    ranUnasked: 0,
  };
}

function inOneLine(counts: Counts): string {
  const { injected, failed, waiting, ranOnce } = counts;
  const calls = `${callsIn(counts)} accepted = ${injected} injected + ${failed} failed + ${waiting} waiting`;
  return `${calls}; ${offers(counts)} offers, ${ranOnce} effects`;
}
