import { type Counts, count } from "../counts.ts";
import type { Scene } from "../scene.ts";

/** Every number of the demo, and whether they add up. */
export const finalCounts: Scene = {
  title: "The counts",
  async play(demo) {
    const { stage } = demo;
    const counts = await count(demo);
    stage.say("");
    for (const [name, number] of rows(counts)) stage.say(`${name.padEnd(44)}${String(number).padStart(5)}`);
    stage.say("");
    stage.check(inOneLine(counts), sums(counts), {
      webhooks: counts.sent,
      calls: counts.accepted,
      parked: 0,
      waiting: 0,
      ranOnce: counts.accepted,
      ranAgain: 0,
      ranUnasked: 0,
    });
  },
};

function rows(counts: Counts): [string, number][] {
  return [
    ["webhooks sent", counts.sent],
    ["  accepted with 202: new calls", counts.accepted],
    ["  accepted with 202: a delivery known already", counts.repeats],
    ["  refused", counts.refused],
    ["calls accepted", counts.accepted],
    ["  injected: the runner has run them", counts.injected],
    ["  parked", counts.parked],
    ["  waiting", counts.waiting],
    ["  (replayed by an operator on the way)", counts.replayed],
    ["offers that reached the runner", offers(counts)],
    ["  run: calls that had their one effect", counts.ranOnce],
    ["  run: calls that had a second effect", counts.ranAgain],
    ["  answered from memory", counts.offersRemembered],
    ["  refused", counts.offersRefused],
  ];
}

function offers({ ranOnce, ranAgain, offersRemembered, offersRefused }: Counts): number {
  return ranOnce + ranAgain + offersRemembered + offersRefused;
}

/** What has to be equal to the numbers that were counted elsewhere. */
function sums(counts: Counts) {
  const { parked, waiting, ranOnce, ranAgain, ranUnasked } = counts;
  return {
    webhooks: counts.accepted + counts.repeats + counts.refused,
    calls: counts.injected + parked + waiting,
    parked,
    waiting,
    ranOnce,
    ranAgain,
    ranUnasked,
  };
}

function inOneLine(counts: Counts): string {
  const { accepted, injected, parked, waiting, ranOnce } = counts;
  const calls = `${accepted} accepted = ${injected} injected + ${parked} parked + ${waiting} waiting`;
  return `It adds up: ${calls}; ${offers(counts)} offers, ${ranOnce} effects`;
}
