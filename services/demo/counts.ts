import { offersOf } from "./offers.ts";
import type { Demo } from "./scene.ts";
import { until } from "./until.ts";

/** The whole demo in numbers, each counted where it happened: by the sender, in the queue, at the runner. */
export type Counts = {
  sent: number;
  accepted: number;
  repeats: number;
  refused: number;
  /** Accepted calls that the runner lists as done. */
  injected: number;
  parked: number;
  waiting: number;
  /** Calls that ran to their end once, more than once, or without having been accepted. */
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
export async function count({ tally, world, runner }: Demo): Promise<Counts> {
  await until("an empty queue", async () => (await world.queue.look()).waiting === 0).catch(() => {});
  const ids = [...tally.accepted.keys()];
  const states = await Promise.all(ids.map((id) => runner.stateOf(id).catch(() => "unknown")));
  const { runs, remembered, refused } = offersOf(world.logs.runner);
  const times = [...runs.values()];
  return {
    sent: tally.sent,
    accepted: ids.length,
    repeats: tally.repeats,
    refused: tally.refused,
    injected: states.filter((state) => state === "done").length,
    ...(await world.queue.look()),
    ranOnce: times.filter((n) => n === 1).length,
    ranAgain: times.filter((n) => n > 1).length,
    ranUnasked: [...runs.keys()].filter((id) => !tally.accepted.has(id)).length,
    offersRemembered: remembered.length,
    askedAgain: tally.askedAgain,
    offersRefused: refused.length,
    refusals: [...new Set(refused.map(({ code }) => String(code)))].join(", "),
    replayed: tally.replayed,
  };
}
