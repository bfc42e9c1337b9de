import { createReadAuditTrail, type ReadAuditTrail } from "./audit-trail.ts";
import { type BulkApi, createBulk } from "./bulk.ts";
import { type BulkRunsApi, createBulkRunsApi } from "./bulk-runs.ts";
import { type CallsApi, createCallsApi } from "./calls.ts";
import { createReadConfiguredNames, type ReadConfiguredNames } from "./configured-names.ts";
import { createFailedApi, type FailedApi } from "./failed.ts";
import { createJobsApi, type JobsApi } from "./jobs.ts";
import { type AuditMoney, createAuditMoney } from "./money-audit.ts";
import { createMoneyRunsApi, type MoneyRunsApi } from "./money-runs.ts";
import { createPaymentsApi, type PaymentsApi } from "./payments.ts";
import { type CheckRefunds, createCheckRefunds } from "./refund-check.ts";
import { createRefundsApi, type RefundsApi } from "./refunds.ts";
import { createRejectedApi, type RejectedApi } from "./rejected.ts";

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
  auditMoney: AuditMoney;
  checkRefunds: CheckRefunds;
};

/** What the two need. `by` stands in the audit. */
export type OperationsDeps = Parameters<typeof createFailedApi>[0] &
  Parameters<typeof createBulk>[0] &
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
    bulk: createBulk(deps),
    auditMoney: createAuditMoney(deps.partition, deps.tokens),
    checkRefunds: createCheckRefunds(deps),
  };
}
