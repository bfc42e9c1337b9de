import { eventually } from "../../shared/dev/wait.ts";
import { offersOf } from "./offers.ts";
import type { Demo } from "./scene.ts";
import { type Accounts, account } from "./shop/accounts.ts";

/** The whole demo in numbers, each counted where it happened: by the sender, in the queue, at the runner. */
export type Counts = {
  sent: number;
  accepted: number;
  repeats: number;
  refused: number;
  /** Calls whose payment has settled; undefined where nothing was sold. */
  paid: number | undefined;
  /** Accepted and paid calls that the runner lists as done. */
  injected: number;
  failed: number;
  waiting: number;
  /** Calls that ran to their end once, more than once, or without having been accepted or paid. */
  ranOnce: number;
  ranAgain: number;
  ranUnasked: number;
  offersRemembered: number;
  /** Of those, the ones that were the demo's own. */
  askedAgain: number;
  offersRefused: number;
  /** The error codes of those. */
  refusals: string;
  replayed: number;
};

/** Counts once the queue is empty, or when it does not become so. */
export async function count(demo: Demo): Promise<{ counts: Counts; accounts: Accounts | undefined }> {
  const { tally, world, runner, shop } = demo;
  await eventually("an empty queue", async () => (await world.queue.look()).waiting === 0).catch(() => {});
  const accounts = shop && (await account(demo, shop));
  const ids = new Set([...tally.accepted.keys(), ...(accounts?.settled.ids ?? [])]);
  const states = await Promise.all([...ids].map((id) => runner.stateOf(id).catch(() => "unknown")));
  const { runs, remembered, refused } = offersOf(world.logs.runner);
  const times = [...runs.values()];
  const counts = {
    sent: tally.sent,
    accepted: tally.accepted.size,
    repeats: tally.repeats,
    refused: tally.refused,
    paid: accounts?.settled.count,
    injected: states.filter((state) => state === "done").length,
    ...(await world.queue.look()),
    ranOnce: times.filter((n) => n === 1).length,
    ranAgain: times.filter((n) => n > 1).length,
    ranUnasked: [...runs.keys()].filter((id) => !ids.has(id)).length,
    offersRemembered: remembered.length,
    askedAgain: tally.askedAgain,
    offersRefused: refused.length,
    refusals: [...new Set(refused.map(({ code }) => String(code)))].join(", "),
    replayed: tally.replayed,
  };
  return { counts, accounts };
}
