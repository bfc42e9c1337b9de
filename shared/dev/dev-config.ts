import { randomBytes } from "node:crypto";
import type { ConfigTables } from "../config/config-tables.ts";

/** Where the parts of one machine's own Postern are. */
export type DevAddresses = {
  redisUrl: string;
  /** `host:port` of the webhooks gateway and of the runner. */
  webhooks: string;
  runner: string;
};

/** The jobs of the reference runner. */
export const DEV_JOBS = { echo: 1, keccak256: 2, slow: 3 } as const;

/** A configuration to try things with: one endpoint per way to authenticate, under secrets made for this one run. */
export function createDevConfig({ redisUrl, webhooks, runner }: DevAddresses) {
  return {
    postern: {
      drain_secs: 0,
      redis: { url: redisUrl },
      runner: { url: `http://${runner}`, bind_address: runner, secret: newSecret() },
    },
    webhooks: {
      bind_address: webhooks,
      endpoints: [
        { path: "/hooks/open", name: "open", job_id: DEV_JOBS.echo, auth: "none" },
        {
          path: "/hooks/bearer",
          name: "bearer",
          job_id: DEV_JOBS.echo,
          auth: "bearer",
          secret: newSecret(),
          idempotency_header: "X-Delivery-Id",
        },
        {
          path: "/hooks/hmac",
          name: "hmac",
          job_id: DEV_JOBS.keccak256,
          auth: "hmac-sha256",
          secret: newSecret(),
        },
        {
          path: "/hooks/api-key",
          name: "api-key",
          job_id: DEV_JOBS.slow,
          auth: "api-key",
          secret: newSecret(),
          idempotency_header: "X-Delivery-Id",
        },
      ],
    },
  } satisfies ConfigTables;
}

/** A body that the job of this id takes. */
export function exampleBody(jobId: number): string {
  return JSON.stringify(jobId === DEV_JOBS.slow ? { steps: 3 } : { hello: "postern" });
}

export function newSecret(): string {
  return randomBytes(32).toString("hex");
}
