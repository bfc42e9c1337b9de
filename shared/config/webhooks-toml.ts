import { z } from "zod";
import { between, inEach } from "./between-keys.ts";
import { callbackHostWarnings } from "./callbacks-toml.ts";
import { window } from "./endpoint-fields.ts";
import { endpoint, rememberedSecsAtLeast } from "./endpoint-toml.ts";
import { address, commonBodyLimit } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { SecretSource } from "./secrets.ts";

/** `webhooks.toml`. Without the file the webhooks gateway is off. */
export function webhooksToml(from: SecretSource) {
  return fields(from).check(between(windowProblems));
}

/**
 * Reports endpoints that forget a delivery id while they would still accept the delivery's signature. An attacker who
 * has recorded the delivery could then send it again, and it would become a second call.
 */
function windowProblems({
  endpoints,
  idempotency_window_secs,
}: z.output<ReturnType<typeof fields>>): Problem[] {
  return inEach(endpoints, (endpoint, index) => {
    const needed = rememberedSecsAtLeast(endpoint);
    if ((endpoint.idempotency_window_secs ?? idempotency_window_secs) >= needed) return [];
    const message = `must be at least ${needed}: for that long, a recorded delivery can be sent again`;
    return [problem(["endpoints", index, "idempotency_window_secs"], message)];
  });
}

function fields(from: SecretSource) {
  return z.strictObject({
    bind_address: address.default("0.0.0.0:9090"),
    body_limit_bytes: commonBodyLimit,
    request_timeout_secs: z.number().min(0.1).max(300).default(15),
    idempotency_window_secs: window.default(7 * 86_400),
    refusals_per_minute: z.int().min(1).max(100_000).default(60),
    endpoints: z.array(endpoint(from)).min(1, "must list at least one endpoint"),
  });
}
export type WebhooksToml = z.output<ReturnType<typeof webhooksToml>>;

/**
 * Reports endpoints with the same path as an earlier one. Reads the file before its validation, so that other problems
 * do not hide these.
 */
export function repeatedPaths(table: unknown): Problem[] {
  const endpoints = (table as { endpoints?: unknown }).endpoints;
  if (!Array.isArray(endpoints)) return [];
  const paths = endpoints.map((each: { path?: unknown }) => each?.path);
  return paths.flatMap((text, index) => {
    const first = paths.indexOf(text);
    if (text === undefined || first === index) return [];
    const other = ["endpoints", first, "path"];
    return [
      {
        path: ["endpoints", index, "path"],
        message: "must be unique: another endpoint has this path",
        other,
      },
    ];
  });
}

/** Warns about permitted but unwise settings of the validated file. */
export function webhooksWarnings(webhooks: WebhooksToml): string[] {
  const lists = webhooks.endpoints.map(({ callback_hosts: hosts }, index) => ({
    path: ["endpoints", index, "callback_hosts"],
    hosts,
  }));
  return [
    ...secretWarnings("webhooks.toml", webhooks),
    ...callbackHostWarnings("webhooks.toml", webhooks, lists),
  ];
}
