import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createSigner } from "../chain/signatures.ts";
import type { ConfigTables } from "../config/config-tables.ts";
import type { Devnet } from "./devnet.ts";

/** Job numbers of the reference runner. */
export const DEV_JOBS = { echo: 1, keccak256: 2, slow: 3 } as const;

/** Secrets of a configuration for trials. `pricing` is the key that signs quotes, without its 0x. */
export type DevSecrets = Record<"runner" | "bearer" | "hmac" | "apiKey" | "quote" | "pricing", string>;

export function newDevSecrets(): DevSecrets {
  const [runner, bearer, hmac, apiKey] = [newSecret(), newSecret(), newSecret(), newSecret()];
  return { runner, bearer, hmac, apiKey, quote: newSecret(), pricing: newSecret() };
}

/**
 * Returns the configuration of a webhooks gateway for trials. It listens at `address`, and has one endpoint for each of
 * four ways to authenticate.
 */
export function createDevWebhooks(address: string, secrets: DevSecrets) {
  return {
    bind_address: address,
    endpoints: [
      { path: "/hooks/open", name: "open", job_id: DEV_JOBS.echo, auth: "none" },
      {
        path: "/hooks/bearer",
        name: "bearer",
        job_id: DEV_JOBS.echo,
        auth: "bearer",
        secret: secrets.bearer,
        idempotency_header: "X-Delivery-Id",
      },
      {
        path: "/hooks/hmac",
        name: "hmac",
        job_id: DEV_JOBS.keccak256,
        auth: "hmac-sha256",
        secret: secrets.hmac,
      },
      {
        path: "/hooks/api-key",
        name: "api-key",
        job_id: DEV_JOBS.slow,
        auth: "api-key",
        secret: secrets.apiKey,
        idempotency_header: "X-Delivery-Id",
      },
    ],
  };
}

/** Example body that the job with this id accepts. */
export function exampleBody(jobId: number | undefined): string {
  return JSON.stringify(jobId === DEV_JOBS.slow ? { steps: 3 } : { hello: "postern" });
}

export function newSecret(): string {
  return randomBytes(32).toString("hex");
}

/**
 * Prices and descriptions of the jobs. At the rate in `devToken`, a job costs three to eight cents. Clients such as
 * `postern pay` pay this much without asking their user.
 */
const JOBS_FOR_SALE = {
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
    description: "Waits for the given number of steps",
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

type TokenPlace = Pick<Devnet, "network" | "token" | "seller" | "rpcUrl">;

type PaymentOptions = {
  /** `host:port` of the gateway. */
  address: string;
  serviceId: string;
  secrets: DevSecrets;
  /**
   * Leaves out the descriptions and input schemas of the jobs. Set it for a runner other than the reference runner,
   * because its jobs with these numbers may do something else.
   */
  unknownJobs?: boolean;
};

/**
 * Returns the configuration of a payment gateway that sells the reference runner's jobs for the devnet's token. The
 * jobs belong to the service `serviceId`.
 */
export function createDevPayments(
  devnet: TokenPlace & Pick<Devnet, "facilitatorUrl">,
  options: PaymentOptions,
) {
  const { address, serviceId, secrets, unknownJobs = false } = options;
  return {
    x402: {
      bind_address: address,
      public_url: `http://${address}`,
      facilitator_url: devnet.facilitatorUrl,
      quote_secret: secrets.quote,
      accepted_tokens: [{ ...devToken(devnet), confirmations: 1 }],
    },
    job_pricing: { [serviceId]: unknownJobs ? onlyPrices() : { ...JOBS_FOR_SALE } },
  } satisfies ConfigTables;
}

function onlyPrices() {
  return Object.fromEntries(Object.entries(JOBS_FOR_SALE).map(([job, { price_wei }]) => [job, price_wei]));
}

/**
 * Returns the devnet's token as an entry of `accepted_tokens` in x402.toml. At its rate, a price of 10^18 wei is 3200
 * tokens.
 */
export function devToken({ network, token, seller, rpcUrl }: TokenPlace) {
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

/**
 * Placeholder for the contract that redeems quotes. A devnet has no such contract, because clients pay quotes through
 * x402.
 */
const REDEEMED_BY = "0x1111111111111111111111111111111111111111";

/** Difficulty of the proof of work, in bits. A client needs only a moment for it. */
const DEV_DIFFICULTY = 14;

type PricingOptions = { grpc: string; http: string; secrets: DevSecrets };

/**
 * Returns the configuration of a pricing engine, and of a payment gateway that accepts its quotes. `grpc` and `http`
 * are the `host:port` of the engine's two servers. The engine's private key is written to a file in `dir`, because
 * pricing.toml must not contain it.
 */
export function createDevPricing(devnet: Devnet, { grpc, http, secrets }: PricingOptions, dir: string) {
  const key = `0x${secrets.pricing}` as const;
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
