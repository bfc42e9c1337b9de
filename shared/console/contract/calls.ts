import { z } from "zod";
import { NOT_A_REJECTED_ID, REJECTED_ID_BEGINNING } from "../../telemetry/rejected/entry.ts";
import { CallFacetsView } from "../call-facets.ts";
import { CallLifeView, CallSearch, ForgottenView, FoundCalls, Replay, ReplayedView } from "../calls.ts";
import { FailedCallDetail, FailedFilter, FailedGroupView, FailedPage } from "../failed.ts";
import { JobChange, JobPage, JobView } from "../jobs.ts";
import { RejectedDetail, RejectedFilter, RejectedGroupView, RejectedPage } from "../rejected.ts";
import { count } from "../view.ts";
import type { Table } from "./operation.ts";
import { because, callParams, flag, jobParams, page, whole } from "./parameters.ts";

const BYTES = "application/octet-stream";

export const JOBS = {
  listJobs: {
    method: "GET",
    path: "/api/v1/jobs",
    role: "viewer",
    summary: "List the jobs that have calls or settings, with their queues and pauses",
    query: z.strictObject(page),
    answer: JobPage,
    says: "Jobs by service id and job index, then all callbacks together, then receivers by name.",
  },
  getJob: {
    method: "GET",
    path: "/api/v1/jobs/{job+}",
    role: "viewer",
    summary: "Show the queue and the pauses of a job, of all callbacks or of a receiver of callbacks",
    params: jobParams,
    answer: JobView,
    says: "The waiting calls, and the pauses.",
    problems: ["job.not_found"],
  },
  pauseJob: {
    method: "POST",
    path: "/api/v1/jobs/{job+}/pause",
    role: "operator",
    summary: "Pause the calls of a job, or callbacks; new ones are still accepted, and wait",
    params: jobParams,
    body: because,
    answer: JobChange,
    says: "It is paused, or was paused before.",
    audit: ["pause"],
  },
  resumeJob: {
    method: "POST",
    path: "/api/v1/jobs/{job+}/resume",
    role: "operator",
    summary: "Resume the calls of a job, or callbacks",
    params: jobParams,
    body: because,
    answer: JobChange,
    says: "It is no longer paused, or was not paused before.",
    audit: ["resume"],
  },
} satisfies Table;

export const CALLS = {
  listCalls: {
    method: "GET",
    path: "/api/v1/calls",
    role: "viewer",
    summary: "Search calls in any state, newest first",
    isHeavy: true,
    query: CallSearch.extend(page),
    answer: FoundCalls,
    says: "A page of calls, and the refused requests whose id starts with `q`.",
  },
  countCallFacets: {
    method: "GET",
    path: "/api/v1/calls/facets",
    role: "viewer",
    summary: "Count the calls that a search finds by state, endpoint, job, event type and error code",
    isHeavy: true,
    query: CallSearch,
    answer: CallFacetsView,
    says: "The ten most frequent values of each.",
  },
  getCall: {
    method: "GET",
    path: "/api/v1/calls/{call_id}",
    role: "viewer",
    summary: "Show everything kept of a call in any state, except the bytes of body and result",
    params: callParams,
    answer: CallLifeView,
    says: "The call and its history.",
    problems: ["call.unknown"],
  },
  getCallBody: {
    method: "GET",
    path: "/api/v1/calls/{call_id}/body",
    role: "viewer",
    summary: "Get the body of a call, as it was received, while it is kept",
    isHeavy: true,
    params: callParams,
    file: BYTES,
    says: "The bytes, of any type.",
    audit: ["read_body"],
    problems: ["call.unknown", "call.no_body"],
  },
  getCallResult: {
    method: "GET",
    path: "/api/v1/calls/{call_id}/result",
    role: "viewer",
    summary: "Get the result of a call, as the runner returned it, while it is kept",
    isHeavy: true,
    params: callParams,
    file: BYTES,
    says: "The bytes, of any type.",
    audit: ["read_result"],
    problems: ["call.unknown", "call.no_result"],
  },
  replayDelivered: {
    method: "POST",
    path: "/api/v1/calls/{call_id}/replay",
    role: "operator",
    summary: "Replay a delivered webhook whose body is kept, as a new call with another id",
    params: callParams,
    body: Replay,
    answer: ReplayedView,
    says: "The new call is queued, or the same request has queued it before.",
    audit: ["replay_delivered"],
    problems: ["call.unknown", "call.no_body", "call.paid", "call.corrupt"],
  },
  forgetCall: {
    method: "POST",
    path: "/api/v1/calls/{call_id}/forget",
    role: "operator",
    summary: "Forget a call: delete its body, metadata, result and attempts; it never runs again",
    params: callParams,
    body: because,
    answer: ForgottenView,
    says: "The call is forgotten, or was forgotten before.",
    audit: ["forget"],
    problems: ["call.unknown", "call.in_hand", "call.undecided"],
  },
} satisfies Table;

/** The filter as a query. */
const failedQuery = FailedFilter.extend({ service_id: whole().optional(), job_id: whole().optional() });

const NOT_FAILED = ["call.not_failed", "call.forgotten", "call.unknown"] as const;

export const FAILED = {
  listFailed: {
    method: "GET",
    path: "/api/v1/failed",
    role: "viewer",
    summary: "List failed calls, newest first",
    isHeavy: true,
    query: failedQuery.extend(page),
    answer: FailedPage,
    says: "A page of failed calls.",
  },
  countFailed: {
    method: "GET",
    path: "/api/v1/failed/count",
    role: "viewer",
    summary: "Count failed calls",
    isHeavy: true,
    query: failedQuery,
    answer: z.object({ matched: count, total: count }),
    says: "The number of matching calls, and of all failed calls.",
  },
  groupFailed: {
    method: "GET",
    path: "/api/v1/failed/groups",
    role: "viewer",
    summary: "Count failed calls by job, origin and code",
    isHeavy: true,
    query: failedQuery,
    answer: z.object({ groups: z.array(FailedGroupView) }),
    says: "The groups, unordered.",
  },
  getFailed: {
    method: "GET",
    path: "/api/v1/failed/{call_id}",
    role: "viewer",
    summary: "Show a failed call, with its metadata and failed attempts, but without its body",
    params: callParams,
    answer: FailedCallDetail,
    says: "The failed call.",
    problems: NOT_FAILED,
  },
  getFailedBody: {
    method: "GET",
    path: "/api/v1/failed/{call_id}/body",
    role: "viewer",
    summary: "Get the body of a failed call, as it was received",
    isHeavy: true,
    params: callParams,
    file: BYTES,
    says: "The bytes, of any type.",
    audit: ["read_body"],
    problems: [...NOT_FAILED, "call.corrupt"],
  },
  replayCall: {
    method: "POST",
    path: "/api/v1/failed/{call_id}/replay",
    role: "operator",
    summary: "Replay a failed call: queue it again, with all its attempts and the same idempotency key",
    params: callParams,
    /** `force`: also if its runner may have forgotten its key, and so may run it twice. */
    body: because.extend({ force: z.boolean().default(false) }),
    says: "The call is queued.",
    audit: ["replay"],
    problems: [...NOT_FAILED, "call.too_old"],
  },
  discardCall: {
    method: "POST",
    path: "/api/v1/failed/{call_id}/discard",
    role: "operator",
    summary: "Discard a failed call: delete its body; it never runs again",
    params: callParams,
    body: because,
    says: "The call is discarded.",
    audit: ["discard"],
    problems: NOT_FAILED,
  },
} satisfies Table;

const rejectedParams = z.strictObject({
  rejected_id: z.string().regex(REJECTED_ID_BEGINNING, NOT_A_REJECTED_ID),
});

export const REJECTED = {
  listRejected: {
    method: "GET",
    path: "/api/v1/rejected",
    role: "viewer",
    summary: "List the latest refused webhooks and their reasons, newest first",
    isHeavy: true,
    query: RejectedFilter.extend({ ...page, unknown: flag.optional() }),
    answer: RejectedPage,
    says: "A page of requests, and the number of matches.",
  },
  groupRejected: {
    method: "GET",
    path: "/api/v1/rejected/groups",
    role: "viewer",
    summary: "Count refused webhooks by endpoint, code and reason",
    isHeavy: true,
    query: RejectedFilter.extend({ unknown: flag.optional() }),
    answer: z.object({ groups: z.array(RejectedGroupView) }),
    says: "The groups, the largest first.",
  },
  getRejected: {
    method: "GET",
    path: "/api/v1/rejected/{rejected_id}",
    role: "viewer",
    summary: "Show everything kept of a refused request, by its id or a unique prefix of it",
    isHeavy: true,
    params: rejectedParams,
    answer: RejectedDetail,
    says: "The request.",
    audit: ["read_rejected"],
    problems: ["rejected.unknown", "rejected.ambiguous"],
  },
  getRejectedBody: {
    method: "GET",
    path: "/api/v1/rejected/{rejected_id}/body",
    role: "viewer",
    summary: "Get the body of a refused request, or its first bytes, if its endpoint keeps them",
    isHeavy: true,
    params: rejectedParams,
    file: BYTES,
    says: "The bytes, of any type.",
    audit: ["read_rejected"],
    problems: ["rejected.unknown", "rejected.ambiguous", "rejected.no_body"],
  },
} satisfies Table;
