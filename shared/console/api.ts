import { createAudit } from "../redis/audit/audit.ts";
import { createReadAuditTrail, type ReadAuditTrail } from "./audit-trail.ts";
import { type BulkApi, createBulkCommand } from "./bulk.ts";
import { type BulkRunsApi, createBulkRunsApi } from "./bulk-runs.ts";
import { type CallsApi, createCallsApi } from "./calls.ts";
import { createReadConfiguredNames, type ReadConfiguredNames } from "./configured-names.ts";
import { createFailedApi, type FailedApi } from "./failed.ts";
import { createJobsApi, type JobsApi } from "./jobs.ts";
import { createMoneyRunsApi, type MoneyRunsApi } from "./money-runs.ts";
import { createPaymentsApi, type PaymentsApi } from "./payments.ts";
import { ALL_PENDING, type CheckRefunds, createCheckRefunds } from "./refund-check.ts";
import { createRefundsApi, type RefundsApi } from "./refunds.ts";
import { createRejectedApi, type RejectedApi } from "./rejected.ts";
import { newRunId } from "./runs/run.ts";
import { createFindMatches, type FindMatches, matchSelection } from "./transfer-matches.ts";

/** What is done at once, by the console and by commands. */
type AtOnce = {
  configuredNames: ReadConfiguredNames;
  jobs: JobsApi;
  failed: FailedApi;
  calls: CallsApi;
  payments: PaymentsApi;
  refunds: RefundsApi;
  rejected: RejectedApi;
};

/** All that the console shows and does. What takes long is a run there, which outlives its request. */
export type OperatorApi = AtOnce & {
  bulkRuns: BulkRunsApi;
  moneyRuns: MoneyRunsApi;
  auditTrail: ReadAuditTrail;
};

/** All that an operator's commands ask and do. What takes long is waited for. */
export type Operations = AtOnce & {
  bulk: BulkApi;
  findMatches: FindMatches;
  checkRefunds: CheckRefunds;
};

/** What the two need. `by` stands in the audit. */
export type OperationsDeps = Parameters<typeof createFailedApi>[0] &
  Parameters<typeof createBulkCommand>[0] &
  Parameters<typeof createCallsApi>[0] &
  Parameters<typeof createPaymentsApi>[0];

type OperatorDeps = OperationsDeps & Parameters<typeof createBulkRunsApi>[0];

function createAtOnce(deps: OperationsDeps): AtOnce {
  return {
    configuredNames: createReadConfiguredNames(deps),
    jobs: createJobsApi(deps),
    failed: createFailedApi(deps),
    calls: createCallsApi(deps),
    payments: createPaymentsApi(deps),
    refunds: createRefundsApi(deps),
    rejected: createRejectedApi(deps),
  };
}

/** On Redis. */
export function createOperatorApi(deps: OperatorDeps): OperatorApi {
  return {
    ...createAtOnce(deps),
    bulkRuns: createBulkRunsApi(deps),
    moneyRuns: createMoneyRunsApi(deps),
    auditTrail: createReadAuditTrail(deps.partition),
  };
}

/** On Redis too. The other way is by the console's API. */
export function createOperations(deps: OperationsDeps): Operations {
  return {
    ...createAtOnce(deps),
    bulk: createBulkCommand(deps),
    ...createMoneyCommands(deps),
  };
}

/** Each begins with a line in the audit, as the runs of the console do. */
function createMoneyCommands(deps: OperationsDeps): Pick<Operations, "findMatches" | "checkRefunds"> {
  const { partition, tokens, clock, log, by } = deps;
  const audit = createAudit(partition, log);
  const findMatches = createFindMatches(partition, tokens);
  const checkRefunds = createCheckRefunds(deps);
  return {
    async findMatches(order, work) {
      const selection = matchSelection(order);
      await audit({ at: clock(), action: "begin_audit", run: newRunId(), by, selection });
      return findMatches(order, work);
    },
    async checkRefunds(signal) {
      const run = newRunId();
      await audit({ at: clock(), action: "begin_refund_check", run, by, selection: ALL_PENDING });
      return checkRefunds({ by, selection: "by a refund check", run }, signal);
    },
  };
}
