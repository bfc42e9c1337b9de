import { AppError } from "../../platform/errors/app-error.ts";
import { systemClock } from "../../platform/time/clock.ts";
import { toIso } from "../../platform/time/iso.ts";
import type { Partition } from "../../redis/partition.ts";
import { createReadAuditTrail } from "../audit-trail.ts";
import { createBulkOperations } from "../bulk-operations.ts";
import { createCallsApi } from "../calls.ts";
import { createCloseEndpoint } from "../close-endpoint.ts";
import { createReadConfiguredNames } from "../configured-names.ts";
import { createSetEndpointState, createTestEndpoint } from "../endpoint-states.ts";
import { createFailedApi } from "../failed.ts";
import { createJobsApi } from "../jobs.ts";
import type { Overview } from "../overview/overview.ts";
import { createPaymentsApi } from "../payments.ts";
import { createRefundsApi } from "../refunds.ts";
import { createRejectedApi } from "../rejected.ts";
import { createAskReload } from "../reload.ts";
import { createRunNow } from "../run-now.ts";
import type { OPERATIONS } from "./contract.ts";
import type { File, Handlers, Work } from "./operation.ts";

/** `by` is the operator's name in the audit log. */
export type HandlersDeps = Parameters<typeof createFailedApi>[0] &
  Parameters<typeof createBulkOperations>[0] &
  Parameters<typeof createCallsApi>[0] &
  Parameters<typeof createPaymentsApi>[0] & {
    overview: Overview;
    /** Returns the names of jobs, by `<service id>/<job index>`. */
    jobNames: () => Record<string, string>;
  };

type Deps = HandlersDeps & { partition: Partition };

/** Implements all operations with direct access to Redis. */
export function createHandlers(given: HandlersDeps): Handlers<typeof OPERATIONS, Work> {
  const deps = { ...given, partition: given.partitions.control };
  return { ...deploymentHandlers(deps), ...callHandlers(deps), ...moneyHandlers(deps) };
}

type Some = Partial<Handlers<typeof OPERATIONS, Work>>;

function deploymentHandlers(deps: Deps) {
  const { overview } = deps;
  const jobs = createJobsApi(deps);
  const auditTrail = createReadAuditTrail(deps.partitions);
  return {
    getOverview: overview.read,
    getQueues: async ({ job }) => ({ queues: await overview.queues(job) }),
    getFlow: ({ span, job }) => overview.flow.read(span, job),
    listEndpoints: async () => ({ endpoints: await overview.endpoints.list() }),
    getEndpoint: ({ path, span }) => overview.endpoints.show(path, span),
    setEndpointState: createSetEndpointState(deps),
    closeEndpoint: createCloseEndpoint(deps),
    askReload: createAskReload(deps),
    testEndpoint: createTestEndpoint(deps),
    getConfiguredNames: createReadConfiguredNames(deps),
    listPrices: ({ span }) => overview.prices.read(span),
    listRevenue: async ({ days }) => ({ earned: await overview.revenue(days) }),
    listAudit: ({ limit, cursor, grouped, ...filter }) => auditTrail(filter, { limit, cursor, grouped }),
    listJobs: jobs.page,
    getJob: ({ job }) => jobs.show(job),
    pauseJob: ({ job, reason }) => jobs.pause(job, reason),
    resumeJob: ({ job, reason }) => jobs.resume(job, reason),
    runDelayed: ({ job, reason }) => jobs.runDelayed(job, reason),
  } satisfies Some;
}

function callHandlers(deps: Deps) {
  const failed = createFailedApi(deps);
  const bulk = createBulkOperations(deps);
  const calls = createCallsApi(deps);
  const runNow = createRunNow({ ...deps, show: calls.show });
  const rejected = createRejectedApi(deps);
  return {
    listFailed: ({ limit, cursor, ...filter }) => failed.page(filter, { limit, cursor }),
    countFailed: (filter, { signal }) => failed.count(filter, signal),
    groupFailed: async (filter, { signal }) => ({ groups: await failed.groups(filter, signal) }),
    getFailed: ({ call_id }) => failed.show(call_id),
    getFailedBody: async ({ call_id }) => file(call_id, await failed.body(call_id)),
    replayCall: ({ call_id, ...why }) => failed.replay(call_id, why),
    discardCall: ({ call_id, ...why }) => failed.discard(call_id, why),
    beginReplay: (order) => bulk.beginFailed("replay", order),
    beginDiscard: (order) => bulk.beginFailed("discard", { ...order, force: false }),
    beginAcknowledge: bulk.beginAcknowledge,
    beginAudit: bulk.beginAudit,
    beginRefundCheck: bulk.beginRefundCheck,
    listBulk: async ({ kind, limit }) => ({ runs: await bulk.list(kind, limit) }),
    getBulk: ({ run_id }) => bulk.show(run_id),
    cancelBulk: ({ run_id }) => bulk.cancel(run_id),
    resumeBulk: ({ run_id }) => bulk.resume(run_id),
    listCalls: ({ limit, cursor, ...search }) => calls.find(search, { limit, cursor }),
    countCallFacets: calls.facets,
    getCall: ({ call_id }) => calls.show(call_id),
    getCallBody: async ({ call_id }) => file(call_id, await calls.body(call_id)),
    getCallResult: async ({ call_id }) => file(`${call_id}-result`, await calls.result(call_id)),
    replayDelivered: ({ call_id, ...why }) => calls.replay(call_id, why),
    runCallNow: ({ call_id, reason }) => runNow(call_id, reason),
    forgetCall: ({ call_id, reason }) => calls.forget(call_id, reason),
    listRejected: ({ limit, cursor, ...filter }) => rejected.page(filter, { limit, cursor }),
    groupRejected: async (filter) => ({ groups: await rejected.groups(filter) }),
    getRejected: ({ rejected_id }) => rejected.show(rejected_id),
    async getRejectedBody({ rejected_id }) {
      const { id, body_base64: body } = await rejected.show(rejected_id);
      if (body !== null) return file(id, Buffer.from(body, "base64"));
      const detail = `${id}: its body was not kept: either it had not arrived when the request was refused, or the endpoint does not set keep_rejected_bodies`;
      throw AppError.public("rejected.no_body", detail);
    },
  } satisfies Some;
}

function moneyHandlers(deps: Deps) {
  const payments = createPaymentsApi(deps);
  const refunds = createRefundsApi(deps);
  return {
    listPayments: ({ limit, cursor, ...filter }) => payments.page(filter, { limit, cursor }),
    listPaymentsInFlight: payments.inFlight,
    listSpentElsewhere: payments.spentElsewhere,
    getPayment: ({ call_id }) => payments.show(call_id),
    async resolvePayment({ call_id, ...decision }) {
      await payments.resolve(call_id, decision);
      return payments.show(call_id);
    },
    reconcilePayment: ({ call_id, wait_ms }) => payments.reconcile(call_id, wait_ms),
    listRefunds: refunds.page,
    getRefundReport: async (_asked, { signal }) => ({
      name: `refunds-report-${toIso(systemClock()).slice(0, 10)}.csv`,
      pieces: encoded(refunds.report(signal)),
    }),
    exportRefunds: ({ reason, ...order }) => refunds.export(order, reason),
    getRefundExport: ({ export_id }) => refunds.show(export_id),
    async withdrawRefund({ call_id, reason }) {
      await refunds.withdraw(call_id, reason);
      return payments.show(call_id);
    },
  } satisfies Some;
}

function file(name: string, bytes: Uint8Array): File {
  return { name, pieces: [bytes] };
}

async function* encoded(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const text of texts) yield Buffer.from(text);
}
