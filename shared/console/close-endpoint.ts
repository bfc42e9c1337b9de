import { z } from "zod";
import { createOpenedEndpoints } from "../ingress/opened-endpoints.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { logAudited } from "../redis/audit/audit.ts";

/**
 * An endpoint that an operator has closed. An open endpoint waits for the secret that its sender sends in a
 * handshake.
 */
export const ClosedEndpoint = z
  .object({
    path: z.string(),
    opened_by: z.string(),
    /** Whether the endpoint had received a secret that no operator had seen, and that is now deleted. */
    secret_deleted: z.boolean(),
  })
  .meta({ id: "ClosedEndpoint" });
export type ClosedEndpoint = z.infer<typeof ClosedEndpoint>;

/**
 * Closes an endpoint that waits for its sender's secret, even if it is no longer configured. Writes a line in the
 * audit log. Throws `request.not_found` if the endpoint does not wait for a secret.
 */
export function createCloseEndpoint({ partition, clock, log, by }: OperateDeps) {
  const endpoints = createOpenedEndpoints(partition);
  return async ({ path }: { path: string }): Promise<ClosedEndpoint> => {
    const act = { at: clock(), action: "close", path, by, selection: "by path" } as const;
    const closed = await endpoints.close(act);
    if (closed === undefined) throw AppError.public("request.not_found", `${path} is not open`);
    logAudited(log, act);
    return { path, opened_by: closed.by, secret_deleted: closed.hadSecret };
  };
}
