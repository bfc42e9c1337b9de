import type { Secret } from "../platform/crypto/secret.ts";
import { inEach } from "./between-keys.ts";
import { DEFAULT_RUNNER } from "./jobs-toml.ts";
import type { PosternToml } from "./postern-toml.ts";
import { type Problem, problem } from "./problem.ts";

/**
 * Returns the secrets with which the runners sign, by the runner's name, and the runner of each job. A gateway needs
 * both to accept deliveries, which are requests in which a runner sends the result of a long job
 * (shared/ingress/deliveries.ts).
 */
export function toDeliverers({ runner, runners, jobs }: PosternToml) {
  const secrets = new Map<string, readonly Secret[]>(
    Object.entries({ ...runners, [DEFAULT_RUNNER]: runner }).map(([name, { secret = [] }]) => [name, secret]),
  );
  return { secrets, runnerOf: (job: string) => jobs[job]?.runner ?? DEFAULT_RUNNER };
}

/** Reports runners without a secret, if gateways accept deliveries. */
export function deliveryProblems({ results, runner, runners }: PosternToml): Problem[] {
  if (!results.deliveries) return [];
  const message =
    "is missing: with results.deliveries = true, gateways verify this runner's results with it; set it, or set results.deliveries = false";
  return [
    ...inEach([runner], ({ secret }) =>
      secret === undefined ? [problem(["runner", "secret"], message)] : [],
    ),
    ...inEach(runners, ({ secret }, name) =>
      secret === undefined ? [problem(["runners", name, "secret"], message)] : [],
    ),
  ];
}
