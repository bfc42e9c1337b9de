import type { Part } from "../../shared/child-process/start-part.ts";
import { exampleBody } from "../../shared/dev-config/dev-config.ts";
import { readyCurl } from "../../shared/dev-config/ready-curl.ts";
import type { Effective } from "./effective-config.ts";

export type Parts = { webhooks: Part; producer: Part; runner: Part };

export type DevSummary = {
  webhooks: string;
  runner: string;
  redis: string;
  probes: Record<keyof Parts, string>;
  endpoints: { path: string; auth: string; job: number; curl: string }[];
};

/** Where everything is, and a command for each endpoint. */
export function summarise(config: Effective, parts: Parts, redisUrl: string): DevSummary {
  const { address } = parts.webhooks;
  const probe = (part: Part) => `http://${part.opsAddress ?? part.address}/readyz`;
  return {
    webhooks: `http://${address}`,
    runner: `http://${parts.runner.address}`,
    redis: redisUrl,
    probes: { webhooks: probe(parts.webhooks), producer: probe(parts.producer), runner: probe(parts.runner) },
    endpoints: (config.webhooks?.endpoints ?? []).map((endpoint) => ({
      path: endpoint.path,
      auth: endpoint.auth,
      job: endpoint.job_id,
      curl: readyCurl(endpoint, {
        address: reachable(address),
        body: exampleBody(endpoint.job_id),
        showSecret: config.madeUp,
      }),
    })),
  };
}

/** The summary as a text for a terminal. */
export function describe({ webhooks, runner, redis, probes, endpoints }: DevSummary): string {
  const row = (name: string, address: string, probe = "") =>
    `  ${name.padEnd(18)}${address.padEnd(28)}${probe}`;
  const curls = endpoints.flatMap(({ path, auth, job, curl }) => [
    `  ${path}  (${auth}, job ${job})`,
    `    ${curl}`,
    "",
  ]);
  return [
    "",
    row("webhooks gateway", webhooks, `ready: ${probes.webhooks}`),
    row("producer", "", `ready: ${probes.producer}`),
    row("runner", runner, `ready: ${probes.runner}`),
    row("redis", redis),
    "",
    ...curls,
    "Ctrl-C ends all of it.",
    "",
  ].join("\n");
}

/** An address bound on all interfaces, as one that can be asked. */
function reachable(address: string): string {
  return address.replace(/^(0\.0\.0\.0|\[::\]):/, "127.0.0.1:");
}
