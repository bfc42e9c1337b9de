import type { Secret } from "../platform/crypto/secret.ts";
import { inEach } from "./between-keys.ts";
import { DEFAULT_RUNNER } from "./jobs-toml.ts";
import type { PosternToml } from "./postern-toml.ts";
import { type Problem, problem } from "./problem.ts";

/** Whose secrets a gateway knows that takes what runners deliver, and which of them has a job (shared/ingress/deliveries.ts). */
export function toDeliverers({ runner, runners, jobs }: PosternToml) {
  const secrets = new Map<string, readonly Secret[]>(
    Object.entries({ ...runners, [DEFAULT_RUNNER]: runner }).map(([name, { secret = [] }]) => [name, secret]),
  );
  return { secrets, runnerOf: (job: string) => jobs[job]?.runner ?? DEFAULT_RUNNER };
}

/** A gateway that takes deliveries has to know who delivers. */
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
