import { BULK } from "./bulk.ts";
import { CALLS, FAILED, JOBS, REJECTED } from "./calls.ts";
import { DEPLOYMENT, LIVE } from "./deployment.ts";
import type { Client } from "./operation.ts";
import { PAYMENTS } from "./payments.ts";
import { SESSION } from "./session.ts";

/** Every operation that the console and the commands have. */
export const OPERATIONS = {
  ...DEPLOYMENT,
  ...JOBS,
  ...FAILED,
  ...BULK,
  ...CALLS,
  ...PAYMENTS,
  ...REJECTED,
};

/** The operations, by the console's API or on Redis. */
export interface Operations extends Client<typeof OPERATIONS> {}

/** The operations that only the console has, because they are about its requests. */
export const REQUESTS = { ...SESSION, ...LIVE };

/** The HTTP API of the console. */
export const CONTRACT = { ...REQUESTS, ...OPERATIONS };
