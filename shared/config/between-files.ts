import { jobKey } from "../call/job-ids.ts";
import { inEach } from "./between-keys.ts";
import { closedReceiver } from "./callbacks-toml.ts";
import { waitSecsOf } from "./endpoint-toml.ts";
import { commonBodyLimit, isTable } from "./fields.ts";
import type { ReadJob } from "./job-pricing-toml.ts";
import type { PosternToml } from "./postern-toml.ts";
import { keyOf, type Problem, problem } from "./problem.ts";
import type { WebhooksToml } from "./webhooks-toml.ts";

/* Checks rules that involve keys of several files. */

/**
 * Reports forwarded headers whose names begin with the metadata prefix: a sender could forge a call's metadata with
 * them.
 */
export function forwardedMetadata(
  { metadata_prefix: prefix }: PosternToml,
  { endpoints }: WebhooksToml,
): Problem[] {
  const start = `${prefix}-`.toLowerCase();
  return inEach(endpoints, ({ forward_headers }, index) => {
    const problems = inEach(forward_headers, (name, at) => {
      const path = ["endpoints", index, "forward_headers", at];
      const isOwn = name.toLowerCase().startsWith(start);
      return isOwn
        ? [{ path, message: "must not start with metadata_prefix: only Postern sets such headers" }]
        : [];
    });
    return problems.slice(0, 1);
  });
}

/** The largest body that a file permits, and the key that permits it. */
type LargestBody = { key: string; bytes: number };

/**
 * Reports endpoints that keep results although no secret can sign result tokens. A client reads a kept result with such
 * a token. Without tokens, only a sender that waits for the result (`respond = "result"`) can get it.
 */
export function tokenlessResults({ results }: PosternToml, { endpoints }: WebhooksToml): Problem[] {
  if (results.secret !== undefined) return [];
  return inEach(endpoints, ({ keep_result, respond }, index) => {
    const message = "needs results.secret in postern.toml, which signs result tokens";
    return keep_result && respond !== "result"
      ? [{ path: ["endpoints", index, "keep_result"], message }]
      : [];
  });
}

/** Reports endpoints whose senders wait longer than `results.wait_secs_max`. */
export function waitProblems({ results }: PosternToml, { endpoints }: WebhooksToml): Problem[] {
  return inEach(endpoints, (endpoint, index) => {
    const secs = waitSecsOf(endpoint) ?? 0;
    if (secs <= results.wait_secs_max) return [];
    const message = `waits for ${secs} s, but results.wait_secs_max of postern.toml is ${results.wait_secs_max}`;
    const key = endpoint.wait_secs === undefined ? "respond" : "wait_secs";
    return [{ path: ["endpoints", index, key], message }];
  });
}

/** Reports endpoints with callbacks if `[callbacks]` is missing, because no process would send them. */
export function unsentCallbacks({ callbacks }: PosternToml, { endpoints }: WebhooksToml): Problem[] {
  if (callbacks !== undefined) return [];
  return inEach(endpoints, (endpoint, index) =>
    inEach(["callback_url", "callback_hosts"] as const, (key) =>
      endpoint[key] === undefined ? [] : [problem(["endpoints", index, key], NO_CALLBACKS)],
    ),
  );
}

/**
 * Reports endpoints with a `callback_url` to which no producer may connect: its address is neither public nor in
 * `allow_cidrs`.
 */
export function closedReceivers({ callbacks }: PosternToml, { endpoints }: WebhooksToml): Problem[] {
  return inEach(endpoints, ({ callback_url: url }, index) => {
    const message = url && callbacks && closedReceiver(url, callbacks.allow_cidrs);
    return message ? [{ path: ["endpoints", index, "callback_url"], message }] : [];
  });
}

export const NO_CALLBACKS =
  "needs [callbacks] with a secret in postern.toml: without it, no callback is sent";

/** Reports jobs whose names in `postern.toml` and `job_pricing.toml` differ. */
export function renamedJobs({ jobs }: PosternToml, priced: readonly ReadJob[]): Problem[] {
  return priced.flatMap(({ path, ids, name }) => {
    const other = ids && jobs[jobKey(ids)]?.name;
    if (name === undefined || other === undefined || name === other) return [];
    const message = `must be the name of [jobs] in postern.toml, which is ${JSON.stringify(other)}; or leave one of them out`;
    return [problem([...path, "name"], message)];
  });
}

/**
 * Reports a body budget that is smaller than the largest body. A request with that body would always exceed the budget
 * and be refused.
 */
function budgetProblems({ http }: PosternToml, bodies: readonly LargestBody[]): Problem[] {
  const [largest] = [...bodies].sort((one, other) => other.bytes - one.bytes);
  if (largest === undefined || http.body_budget_bytes >= largest.bytes) return [];
  const message = `must be at least ${largest.bytes}, the largest body of ${largest.key}`;
  return [{ path: ["http", "body_budget_bytes"], message }];
}

/** Reports a body budget that is smaller than the largest body of any endpoint. */
export function bodyBudgetProblems(postern: PosternToml, webhooks: WebhooksToml): Problem[] {
  return budgetProblems(postern, largestBodies(webhooks));
}

/**
 * Reports a body budget that is smaller than the body limit of the payment gateway. `key` names this limit in the
 * problem. Takes x402.toml before its validation, so that other problems do not hide this one.
 */
export function x402BudgetProblems(postern: PosternToml, x402: unknown, key: string): Problem[] {
  const bytes = isTable(x402) ? commonBodyLimit.safeParse(x402["body_limit_bytes"]).data : undefined;
  return bytes === undefined ? [] : budgetProblems(postern, [{ key, bytes }]);
}

/**
 * Returns each endpoint's largest body. If the endpoint decodes bodies, its limit counts twice, because the received
 * and the decoded form are in memory at the same time.
 */
function largestBodies(webhooks: WebhooksToml): LargestBody[] {
  return inEach(webhooks.endpoints, (endpoint, index) => {
    const limit = endpoint.body_limit_bytes ?? webhooks.body_limit_bytes;
    const key = keyOf(["endpoints", index], webhooks);
    if (endpoint.encoded_bodies !== "decode") return [{ key, bytes: limit }];
    return [{ key: `${key}, received and decoded`, bytes: 2 * limit }];
  });
}
