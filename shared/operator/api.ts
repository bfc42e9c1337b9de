import { type BulkRunsApi, createBulkRunsApi } from "./bulk-runs.ts";
import { createFailedApi, type FailedApi } from "./failed.ts";
import { createJobsApi, type JobsApi } from "./jobs.ts";

/** All that an operator may look at and do. */
export type OperatorApi = {
  jobs: JobsApi;
  failed: FailedApi;
  bulkRuns: BulkRunsApi;
};

type Deps = Parameters<typeof createFailedApi>[0] & Parameters<typeof createBulkRunsApi>[0];

/** On Redis. `by` stands in the audit. */
export function createOperatorApi(deps: Deps): OperatorApi {
  return {
    jobs: createJobsApi(deps),
    failed: createFailedApi(deps),
    bulkRuns: createBulkRunsApi(deps),
  };
}
