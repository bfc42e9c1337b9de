import { JOB_INDEX_MAX, type JobIds, jobKey } from "../../shared/job-call/job-ids.ts";

/** What a request's raw path names. */
export type Route = ({ kind: "job" | "price" | "dry_run" } & JobIds) | { kind: "call"; callId: string };

/** Ids in their one decimal form: no sign, no padding, nothing encoded. */
const JOB = /^\/x402\/jobs\/(0|[1-9]\d{0,15})\/(0|[1-9]\d{0,9})(\/price|\/auth-dry-run)?$/;
const CALL = /^\/x402\/calls\/(c_[0-9a-f]{32})$/;

/** Parses the ids of a raw path, once; undefined where it names nothing of this gateway's. */
export function parseRoute(path: string): Route | undefined {
  const callId = CALL.exec(path)?.[1];
  if (callId !== undefined) return { kind: "call", callId };
  const [, service, index, action] = JOB.exec(path) ?? [];
  if (service === undefined || index === undefined) return undefined;
  const ids = { serviceId: Number(service), jobIndex: Number(index) };
  if (!Number.isSafeInteger(ids.serviceId) || ids.jobIndex > JOB_INDEX_MAX) return undefined;
  if (action === "/price") return { kind: "price", ...ids };
  return { kind: action === undefined ? "job" : "dry_run", ...ids };
}

/** A job's path, which is also what a payment is bound to. */
export function jobPath(ids: JobIds): string {
  return `/x402/jobs/${jobKey(ids)}`;
}
