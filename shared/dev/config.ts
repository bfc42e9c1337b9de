import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ConfigTables } from "../config/config-tables.ts";
import { toHex } from "../ethereum/encoding.ts";
import { createSigner } from "../ethereum/signatures.ts";
import type { Devnet } from "./devnet.ts";

/** The jobs of the reference runner. */
export const DEV_JOBS = { echo: 1, keccak256: 2, slow: 3 } as const;

/**
 * A configuration to try things with: one endpoint for each way to authenticate, with secrets made for this one run.
 * `webhooks` and `runner` are the `host:port` of the webhooks gateway and of the runner.
 */
export function createDevConfig({
  redisUrl,
  webhooks,
  runner,
}: Record<"redisUrl" | "webhooks" | "runner", string>) {
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
export function exampleBody(jobId: number | undefined): string {
  return JSON.stringify(jobId === DEV_JOBS.slow ? { steps: 3 } : { hello: "postern" });
}

export function newSecret(): string {
  return randomBytes(32).toString("hex");
}

/** At the rate below three to eight cents, which official clients pay without being told to. */
const SOLD = {
  [DEV_JOBS.echo]: {
    price_wei: "10000000000000",
    name: "echo",
    description: "Answers with the body, unchanged",
  },
  [DEV_JOBS.keccak256]: {
    price_wei: "20000000000000",
    name: "keccak256",
    description: "Answers with the Keccak-256 of the body",
  },
  [DEV_JOBS.slow]: {
    price_wei: "25000000000000",
    name: "slow",
    description: "Waits for so many steps",
    input_schema: {
      type: "object",
      properties: {
        steps: { type: "integer", minimum: 1, maximum: 1000 },
        ms_per_step: { type: "integer", minimum: 0, maximum: 60_000 },
      },
      additionalProperties: false,
    },
    input_example: { steps: 3 },
  },
};

/**
 * The configuration of an x402 gateway that sells the reference runner's jobs, as those of service `serviceId`, for the
 * devnet's tokens. `address` is the gateway's `host:port`.
 */
export function createDevPayments(devnet: Devnet, address: string, serviceId: string) {
  return {
    x402: {
      bind_address: address,
      public_url: `http://${address}`,
      facilitator_url: devnet.facilitatorUrl,
      quote_secret: newSecret(),
      accepted_tokens: [{ ...devToken(devnet), confirmations: 1 }],
    },
    job_pricing: { [serviceId]: { ...SOLD } },
  } satisfies ConfigTables;
}

/** The devnet's token as an accepted token of x402.toml, at 3200 for 10^18 wei. */
export function devToken({
  network,
  token,
  seller,
  rpcUrl,
}: Pick<Devnet, "network" | "token" | "seller" | "rpcUrl">) {
  return {
    network,
    asset: token,
    symbol: "USDC",
    decimals: 6,
    pay_to: seller,
    rate_per_native_unit: "3200",
    eip3009_name: "USDC",
    eip3009_version: "2",
    rpc_url: rpcUrl,
  };
}

/** No contract redeems quotes on a devnet: they are paid through x402. */
const REDEEMED_BY = "0x1111111111111111111111111111111111111111";

/** Bits of a proof of work that takes a moment. */
const DEV_DIFFICULTY = 14;

/**
 * The configuration of a pricing engine, and of an x402 gateway that honours its quotes. `grpc` and `http` are the `host:port`
 * of the engine's two servers. The operator's key, made for this one run, is written to `dir`: pricing.toml holds no key.
 */
export function createDevPricing(
  devnet: Devnet,
  { grpc, http }: { grpc: string; http: string },
  dir: string,
) {
  const key = toHex(randomBytes(32));
  const keyFile = join(dir, "pricing.key");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(keyFile, key, { mode: 0o600 });
  const domain = { chain_id: devnet.chainId, verifying_contract: REDEEMED_BY };
  return {
    pricing: {
      bind_address: grpc,
      http_address: http,
      key: `file:${keyFile}`,
      domain,
      pow_difficulty: DEV_DIFFICULTY,
    },
    x402: { quote_operators: [createSigner(key).address], quote_domain: domain },
  } satisfies ConfigTables;
}
