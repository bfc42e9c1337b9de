import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ConfigTables } from "../config/config-tables.ts";
import { toHex } from "../ethereum/encoding.ts";
import { createSigner } from "../ethereum/signatures.ts";
import type { Devnet } from "./start-devnet.ts";

/** Bits of a proof of work that takes a moment. */
export const DEV_DIFFICULTY = 14;

type Options = {
  devnet: Pick<Devnet, "chainId">;
  /** `host:port` of the engine's gRPC server and of its HTTP server. */
  grpc: string;
  http: string;
  /** Where the operator's key, made for this one run, is written; pricing.toml holds none. */
  dir: string;
};

/** What a pricing engine needs, and what an x402 gateway needs to honour its quotes. */
export function createDevPricing({ devnet, grpc, http, dir }: Options) {
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

/** No contract redeems quotes on a devnet: there they are paid through x402. */
const REDEEMED_BY = "0x1111111111111111111111111111111111111111";
