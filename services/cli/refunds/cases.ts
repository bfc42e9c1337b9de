import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { RefundCase } from "../../../shared/console/refunds.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdsOf } from "../call-ids.ts";
import { createListing } from "../listing.ts";
import { pagesOf } from "../pagination.ts";
import { amountOf, toneOfState } from "../payments/list.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

/** Options that select refunds, for `list` and `export`. */
export type CasesOptions = OperationTarget & { effectUnknown?: boolean; network?: string };

/** `postern refunds list`: prints the payments of failed and discarded calls, unless their refund is already exported. */
export function listRefunds(
  deps: ProgramDeps,
  ids: readonly string[],
  options: CasesOptions,
): Promise<number> {
  return withCases(deps, ids, options, async (_operations, chosen) => printCases(deps, chosen));
}

/**
 * Selects refunds by the ids and options, and calls `work` with them. If nothing is selected because --network is
 * misspelled, prints a usage error.
 */
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

/** The selected refunds. */
export type Chosen = {
  /** Refunds that can be exported, oldest payment first. */
  cases: RefundCase[];
  /** Number of refunds that cannot be exported now, by the reason. */
  leftOut: Map<string, number>;
  /** Networks with refunds that are not selected, because --network names another network. */
  elsewhere: Set<string>;
  /** One sentence for each call that the user named but that is not in `cases`. It says why. */
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
  // `isChosen` has removed from `named` each call with a listed refund. The remaining calls have neither failed nor
  // been discarded, or their refund is already exported.
  for (const id of named)
    chosen.refused.push(
      await getPayment({ call_id: id }).then(
        ({ state }) => `no refund can be exported for ${id}: it is ${state}`,
        (error: Error) => error.message,
      ),
    );
  return chosen;
}

/**
 * Returns a problem if --network names a network that has neither a refund nor an accepted token. It is probably
 * misspelled then. Returns undefined otherwise, and also if the accepted tokens are not known here.
 */
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

function printCases(deps: ProgramDeps, chosen: Chosen): number {
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

/**
 * Formats the number of refunds. Refunds of discarded calls are due. Those of failed calls are counted separately,
 * because these calls can still be replayed instead.
 */
export function countText({ cases, leftOut, elsewhere }: Chosen): string {
  const others = elsewhere.size === 0 ? [] : [`more on ${[...elsewhere].join(", ")}`];
  const failed = cases.filter(({ state }) => state === "failed").length;
  const undecided = failed === 0 ? [] : [`${counted(failed, "failed call")} to replay or refund`];
  const due = `${counted(cases.length - failed, "refund")} due`;
  return [due, ...undecided, ...leftOutText(leftOut), ...others].join(", ");
}

/** Advice for some of the reasons why a refund cannot be exported now. */
const ADVICE: Readonly<Record<string, string>> = {
  "effect unknown": " (--effect-unknown includes them)",
  "not confirmed": " (run this again once the chain confirms them at the configured depth)",
};

export function leftOutText(leftOut: Chosen["leftOut"]): string[] {
  return [...leftOut].map(([obstacle, times]) => `${times} left out: ${obstacle}${ADVICE[obstacle] ?? ""}`);
}
