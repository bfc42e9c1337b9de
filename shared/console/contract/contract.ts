import { BULK } from "./bulk.ts";
import { CALLS, FAILED, JOBS, REJECTED } from "./calls.ts";
import { DEPLOYMENT, LIVE } from "./deployment.ts";
import type { Client, Table } from "./operation.ts";
import { PAYMENTS } from "./payments.ts";
import { SESSION } from "./session.ts";

/** The operations of the console, grouped by the tags that the OpenAPI document gives them. */
export const TAGS: readonly { name: string; description: string; operations: Table }[] = [
  { name: "deployment", description: "The deployment as a whole", operations: { ...DEPLOYMENT, ...LIVE } },
  { name: "jobs", description: "Queues and pauses of jobs", operations: JOBS },
  { name: "calls", description: "Calls in any state", operations: CALLS },
  { name: "failed", description: "Failed calls", operations: FAILED },
  { name: "bulk", description: "Work that outlives its request", operations: BULK },
  { name: "payments", description: "Payments and refunds", operations: PAYMENTS },
  { name: "rejected", description: "Refused webhooks", operations: REJECTED },
  { name: "session", description: "Signing in, and this document", operations: SESSION },
];

/** Operations that both the console and the commands (`postern calls` and so on) have. */
export const OPERATIONS = {
  ...DEPLOYMENT,
  ...JOBS,
  ...FAILED,
  ...BULK,
  ...CALLS,
  ...PAYMENTS,
  ...REJECTED,
};

/**
 * Client of the operations. One implementation sends requests to the console's API, the other uses Redis directly.
 */
export interface Operations extends Client<typeof OPERATIONS> {}

/** Operations that only the console has: sessions, streams and its OpenAPI document. */
export const REQUESTS = { ...SESSION, ...LIVE };

/** The HTTP API of the console. */
export const CONTRACT = { ...REQUESTS, ...OPERATIONS };
