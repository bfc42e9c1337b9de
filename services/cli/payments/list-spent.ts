import type { SpentElsewhereView } from "../../../shared/console/spent-elsewhere.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { amountOf } from "./list.ts";

/** A limit of 0 lists all. */
export type ListSpentOptions = OperationTarget & { limit: number; json?: boolean };

const PAGE_MAX = 20;

/**
 * `postern payments list-spent`: prints payments that a gateway refused because another transaction had already used
 * their authorization. For each it says what the chain shows about that transaction.
 */
export function listSpent(deps: ProgramDeps, options: ListSpentOptions): Promise<number> {
  const most = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  return withOperations(deps, options, async ({ listSpentElsewhere: list }) => {
    const listing = createListing<SpentElsewhereView>(deps, {
      columns: [
        { heading: "CALL" },
        { heading: "RECEIVED" },
        { heading: "AGE", alignRight: true },
        { heading: "PAYER" },
        { heading: "AMOUNT" },
        { heading: "JOB" },
        { heading: "ON CHAIN", cutTo: 40 },
      ],
      toCells,
      toJson: (payment) => payment,
      toName: ({ call_id }) => call_id,
    });
    let [shown, next]: [number, string | null] = [0, null];
    do {
      const limit = Math.min(PAGE_MAX, most - shown);
      const page = await list({ limit, cursor: next ?? undefined });
      for (const payment of page.payments) listing.add(payment);
      shown += page.payments.length;
      next = page.next;
    } while (next !== null && shown < most);
    listing.end(`${counted(shown, "payment")} already spent`);
    return EXIT.ok;
  });
}

function toCells(payment: SpentElsewhereView): string[] {
  const { call_id: id, came_at: cameAt, payer, decimals, chain } = payment;
  const job = `${payment.service_id}/${payment.job_id}`;
  return [id, toSeconds(cameAt), age(cameAt), payer, amountOf(payment, decimals), job, chain];
}
