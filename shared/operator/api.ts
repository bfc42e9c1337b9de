import { type BulkRunsApi, createBulkRunsApi } from "./bulk-runs.ts";
import { type CallsApi, createCallsApi } from "./calls.ts";
import { createFailedApi, type FailedApi } from "./failed.ts";
import { createJobsApi, type JobsApi } from "./jobs.ts";
import { createPaymentsApi, type PaymentsApi } from "./payments.ts";

/** All that an operator may look at and do. */
export type OperatorApi = {
  jobs: JobsApi;
  failed: FailedApi;
  bulkRuns: BulkRunsApi;
  calls: CallsApi;
  payments: PaymentsApi;
};

type Deps = Parameters<typeof createFailedApi>[0] &
  Parameters<typeof createBulkRunsApi>[0] &
  Parameters<typeof createCallsApi>[0] &
  Parameters<typeof createPaymentsApi>[0];

/** On Redis. `by` stands in the audit. */
export function createOperatorApi(deps: Deps): OperatorApi {
  return {
    jobs: createJobsApi(deps),
    failed: createFailedApi(deps),
    bulkRuns: createBulkRunsApi(deps),
    calls: createCallsApi(deps),
    payments: createPaymentsApi(deps),
  };
}
