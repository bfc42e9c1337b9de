import { z } from "zod";
import { createFindNear } from "../http/near-path.ts";
import { createOrderTest, TestOutcome } from "../ingress/endpoint-tests.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { ENDPOINT_STATES, endpointAct, openEndpoints } from "../queue/endpoints.ts";
import type { OperateDeps, OperatorDeps } from "../queue/operate.ts";
import { logAudited } from "../redis/audit/audit.ts";
import { count, reached, reachOf, reason } from "./view.ts";

const path = z.string().min(1).max(2048);

/** Sets the state of an endpoint: `disabled` refuses webhooks with 503, and `held` accepts them but delivers none. */
export const EndpointOrder = z.strictObject({
  path,
  state: z.enum(ENDPOINT_STATES),
  reason,
});
export type EndpointOrder = z.infer<typeof EndpointOrder>;

export const EndpointTest = z.strictObject({ path, reason });
export type EndpointTest = z.infer<typeof EndpointTest>;

export const EndpointTested = TestOutcome.extend({ path: z.string() }).meta({ id: "EndpointTested" });
export type EndpointTested = z.infer<typeof EndpointTested>;

export const EndpointChange = z
  .object({
    path: z.string(),
    state: z.enum(ENDPOINT_STATES),
    /** Whether the request changed anything. */
    changed: z.boolean(),
    /**
     * Number of held calls before the change. If the endpoint is enabled now, these calls are released. Calls in
     * unavailable partitions are not counted.
     */
    held: count,
    ...reached,
  })
  .meta({ id: "EndpointChange" });
export type EndpointChange = z.infer<typeof EndpointChange>;

/** Returns the paths of the configured endpoints. Returns none if they are not known. */
type Paths = { paths: () => readonly string[] };

/**
 * Sets the state of an endpoint for all gateways, and writes a line in the audit log. Throws `request.not_found` for
 * a path that no endpoint has.
 */
export function createSetEndpointState({ partitions, clock, log, by, paths }: OperatorDeps & Paths) {
  const endpoints = openEndpoints(partitions);
  return async ({ path, state, reason: why }: EndpointOrder): Promise<EndpointChange> => {
    const held = await endpoints.heldNow(path);
    // An endpoint that is no longer configured can still be enabled, to release its held calls or delete its state.
    const isLeft = state === "enabled" && (held > 0 || (await endpoints.settings()).has(path));
    if (!isLeft) requireKnown(path, paths());
    const because = { at: clock(), by, reason: why };
    const { changed, unreached } = await endpoints.set(path, state, because);
    if (changed) logAudited(log, endpointAct(path, state, because));
    return { path, state, changed, held, ...reachOf(partitions, unreached) };
  };
}

/**
 * Has a webhooks gateway sign a sample webhook as the sender would, and send it to itself. Writes a line in the audit
 * log. Throws `request.not_found` for a path that no endpoint has.
 */
export function createTestEndpoint({ partition, clock, log, by, paths }: OperateDeps & Paths) {
  const orderTest = createOrderTest(partition);
  return async ({ path, reason: why }: EndpointTest): Promise<EndpointTested> => {
    requireKnown(path, paths());
    const act = { at: clock(), action: "test", path, by, selection: "by path", reason: why } as const;
    logAudited(log, act);
    return { path, ...(await orderTest(act)) };
  };
}

function requireKnown(path: string, known: readonly string[]): void {
  if (known.length === 0 || known.includes(path)) return;
  const near = createFindNear(known)(path);
  const meant = near === undefined ? "" : `; did you mean ${near.path}?`;
  throw AppError.public("request.not_found", `no endpoint has the path ${path}${meant}`);
}
