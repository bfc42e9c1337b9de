import type { RefundCheck } from "../../../shared/console/refund-check.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { failureOf, followBulk } from "../follow-bulk.ts";
import { LATE } from "../payments/show.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type CheckOptions = OperationTarget & { json?: boolean };

/**
 * `postern refunds check`: searches the chain for the transfers that pay exported refunds. Marks these
 * refunds as refunded, and prints those that are still open. Exit code 1 if it could not search for a refund: the token
 * is not configured, its node does not answer, or the stored payment cannot be read.
 */
export function checkRefunds(deps: ProgramDeps, options: CheckOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const run = await followBulk(operations, await operations.beginRefundCheck());
    if (run.result === null || run.failure !== null)
      throw failureOf(run) ?? new Error(`the refund check is ${run.state}`);
    const checked = run.result;
    const { problems, unwatched } = checked;
    if (options.json) deps.print(jsonLine(checked));
    deps.say(inWords(checked));
    for (const problem of problems) deps.printError(`${problem}\n`);
    return unwatched.length + problems.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

function inWords({ closed, open, unwatched }: RefundCheck): string {
  const late = [...closed, ...open, ...unwatched].filter(({ late_at }) => late_at !== null);
  return [
    ...closed.map(({ call_id: id, transaction }) => `${id} was refunded by transaction ${transaction}\n`),
    ...open.map(
      ({ call_id: id, export: made }) => `${id}: the refund is not yet on the chain (export ${made})\n`,
    ),
    ...unwatched.map(
      ({ call_id: id, network, asset }) =>
        `${id}: the refund was not checked, because x402.toml has no refund_from or no rpc_url for ${asset} on ${network}\n`,
    ),
    ...late.map(({ call_id: id }) => `ATTENTION: ${id}: ${LATE}\n`),
    `${counted(closed.length, "refund")} closed, ${open.length} not yet on the chain, ${unwatched.length} not checked\n`,
  ].join("");
}
