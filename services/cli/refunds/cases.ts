import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { RefundCase } from "../../../shared/console/refunds.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdsOf } from "../call-ids.ts";
import { createListing } from "../listing.ts";
import { pagesOf } from "../pagination.ts";
import { amountOf, toneOfState } from "../payments/list.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

/** The options by which refunds are chosen. */
export type CasesOptions = Operated & { effectUnknown?: boolean; network?: string };

/** `postern refunds list`: lists what was paid and failed for good. */
export function listRefunds(
  deps: ProgramDeps,
  ids: readonly string[],
  options: CasesOptions,
): Promise<number> {
  return withCases(deps, ids, options, async (_operations, chosen) => show(deps, chosen));
}

/** Chooses refunds and does the work on them. A network that has none and no accepted token is a wrong command line. */
export function withCases(
  deps: ProgramDeps,
  ids: readonly string[],
  options: CasesOptions,
  work: (operations: Operations, chosen: Chosen) => Promise<number>,
): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const chosen = await readCases(operations, await callIdsOf(operations, ids), options);
    const problem = await whyNoNetwork(operations, chosen, options);
    if (problem === undefined) return work(operations, chosen);
    deps.printError(`error: ${problem}\n`);
    return EXIT.usage;
  });
}

export const PAGE_MAX = 500;

/** The refunds that were chosen. */
export type Chosen = {
  /** What an export would have, the oldest payment first. */
  cases: RefundCase[];
  /** How many are left out, by the reason. */
  leftOut: Map<string, number>;
  /** The networks of the cases that --network leaves out. */
  elsewhere: Set<string>;
  /** One sentence for each named call that is not among the cases. */
  refused: string[];
};

async function readCases(
  { getPayment, listRefunds }: Operations,
  ids: readonly string[],
  { effectUnknown = false, network }: CasesOptions,
): Promise<Chosen> {
  const chosen: Chosen = { cases: [], leftOut: new Map(), elsewhere: new Set(), refused: [] };
  const named = new Set(ids);
  const isChosen = ({ call_id: id, terms }: RefundCase): boolean => {
    if (ids.length > 0 && !named.delete(id)) return false;
    const isThere = network === undefined || terms.network === network;
    if (!isThere) chosen.elsewhere.add(terms.network);
    if (!isThere && ids.length > 0) chosen.refused.push(`${id} is on ${terms.network}, not on ${network}`);
    return isThere;
  };
  const leaveOut = ({ call_id: id }: RefundCase, obstacle: string): void => {
    chosen.leftOut.set(obstacle, (chosen.leftOut.get(obstacle) ?? 0) + 1);
    if (ids.length > 0) chosen.refused.push(`no refund can be exported for ${id}: ${obstacle}`);
  };
  const read = (cursor?: string) => listRefunds({ limit: PAGE_MAX, cursor });
  for await (const each of pagesOf(read, ({ payments }) => payments)) {
    if (each.state === "refund_pending" || !isChosen(each)) continue;
    const { obstacle } = each;
    if (obstacle === null || (effectUnknown && obstacle === "effect unknown")) chosen.cases.push(each);
    else leaveOut(each, obstacle);
  }
  chosen.cases.reverse();
  // The others neither failed nor were discarded.
  for (const id of named)
    chosen.refused.push(
      await getPayment({ call_id: id }).then(
        ({ state }) => `no refund can be exported for ${id}: it is ${state}`,
        (error: Error) => error.message,
      ),
    );
  return chosen;
}

/** Says that the chosen network has neither a case nor an accepted token; undefined if it has one, or if the tokens are not known. */
async function whyNoNetwork(
  { getConfiguredNames }: Operations,
  { cases, leftOut, refused }: Chosen,
  { network }: CasesOptions,
): Promise<string | undefined> {
  if (network === undefined || cases.length + leftOut.size + refused.length > 0) return undefined;
  const { networks } = await getConfiguredNames();
  if (networks.length === 0 || networks.includes(network)) return undefined;
  return `no refund can be exported on ${network}, and no accepted token is on it; choose one of ${networks.join(", ")}`;
}

function show(deps: ProgramDeps, chosen: Chosen): number {
  const { cases, refused } = chosen;
  const listing = createListing<RefundCase>(deps, {
    columns: [
      { heading: "CALL" },
      { heading: "ENDED" },
      { heading: "AGE", alignRight: true },
      { heading: "STATE", tone: toneOfState },
      { heading: "PAYER" },
      { heading: "AMOUNT" },
      { heading: "NETWORK" },
      { heading: "EFFECT", tone: (effect) => (effect === "unknown" ? "attention" : undefined) },
    ],
    toCells: ({ call_id: id, changed_at: changedAt, state, terms, decimals, effect }) => [
      ...[id, toSeconds(changedAt), age(changedAt), state, terms.payer],
      ...[amountOf(terms, decimals), terms.network, effect],
    ],
    toJson: (payment) => payment,
    toName: ({ call_id }) => call_id,
  });
  for (const payment of cases) listing.add(payment);
  listing.end(countText(chosen));
  for (const line of refused) deps.printError(`${line}\n`);
  return refused.length > 0 ? EXIT.failed : EXIT.ok;
}

/** The refund of a discarded call is due. A failed call can still be replayed. */
export function countText({ cases, leftOut, elsewhere }: Chosen): string {
  const others = elsewhere.size === 0 ? [] : [`more on ${[...elsewhere].join(", ")}`];
  const failed = cases.filter(({ state }) => state === "failed").length;
  const undecided = failed === 0 ? [] : [`${counted(failed, "failed call")} to replay or refund`];
  const due = `${counted(cases.length - failed, "refund")} due`;
  return [due, ...undecided, ...leftOutText(leftOut), ...others].join(", ");
}

/** What an operator may do about an obstacle. */
const ADVICE: Readonly<Record<string, string>> = {
  "effect unknown": " (--effect-unknown includes them)",
  "not confirmed": " (run this again once the chain confirms them at the configured depth)",
};

export function leftOutText(leftOut: Chosen["leftOut"]): string[] {
  return [...leftOut].map(([obstacle, times]) => `${times} left out: ${obstacle}${ADVICE[obstacle] ?? ""}`);
}
