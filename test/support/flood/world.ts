import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Hex } from "../../../services/dev/chain/chain.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { devToken } from "../../../shared/dev/config.ts";
import { type Devnet, provideDevnet } from "../../../shared/dev/devnet.ts";
import { type Part, type PosternProcess, startPart, startProcess } from "../../../shared/dev/process.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { createStack, untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { connectDevnet, newPayer } from "../devnet.ts";
import { FROM_SOURCE } from "../from-source.ts";
import { send } from "../http.ts";
import { createPay, newKey, requiredIn } from "./payments.ts";
import { JOB_PATH, LARGE_BODY_BYTE, LARGE_BYTES, RESTRICTED_PATH } from "./plans.ts";

/** Difficulty of the proof of work, which takes an honest client of the pricing engine some milliseconds. */
export const DIFFICULTY = 10;
const PAYERS = 25;
const PRICE_WEI = "1000000000000000";
/** Connections from this address may name their client. */
export const PROXY = "127.0.0.1";
/** Interval of blocks. It is short, so that each payer can make many purchases in a round of seconds. */
const BLOCK_MS = 100;

/** A payment gateway and a pricing engine as processes, with their own Redis and chain, and clients of both. */
export type FloodWorld = {
  readonly dir: string;
  readonly gateway: Part;
  readonly pricing: Part;
  /** `host:port` of the pricing engine's HTTP server. */
  readonly pricingHttp: string;
  /** Keys of payers with money. */
  readonly payers: readonly Hex[];
  readonly fundedKey: Hex;
  readonly required: string;
  readonly requiredOfRestricted: string;
  /** A settled payment with a large body. */
  readonly known: string;
  readonly pool: string;
  /** Starts a TypeScript program. */
  start(script: URL, args: readonly string[]): PosternProcess;
  end(): Promise<void>;
};

export type FloodWorldOptions = {
  /** Number of signed payments of payers without money. Each takes a fifth of a millisecond. */
  poolSize: number;
};

type Ends = (() => unknown)[];

/** Starts a world. The test must end it. */
export async function startFloodWorld(options: FloodWorldOptions): Promise<FloodWorld> {
  const ends: Ends = [];
  const end = async (): Promise<void> => {
    for (const each of ends.splice(0).reverse()) await each();
  };
  try {
    return { ...(await startWorld(options, ends)), end };
  } catch (error) {
    await end();
    throw error;
  }
}

async function startWorld({ poolSize }: FloodWorldOptions, ends: Ends): Promise<Omit<FloodWorld, "end">> {
  const dir = mkdtempSync(join(tmpdir(), "postern-flood-"));
  ends.push(() => rmSync(dir, { recursive: true, force: true }));
  const env = { ...process.env, POSTERN_PRICING_KEY: newKey() };
  const redis = await startRedis({ env });
  ends.push(() => redis.stop());
  const devnet = await startDevnet(ends);
  const configDir = join(dir, "config");
  writeConfig(configDir, tablesFor(devnet, redis.url));
  const stack = createStack({ configDir, env, logDir: dir });
  ends.push(() => Promise.all(stack.parts.map((part) => part.kill("SIGKILL"))));
  const [gateway, pricing] = await Promise.all([
    stack.start("x402", { args: ["--bind-address", "127.0.0.1:0"] }),
    startPricing(configDir, env, ends),
  ]);
  await Promise.all([untilSelling(gateway), untilReady(pricing)]);

  const start: FloodWorld["start"] = (script, args) => {
    const entry = [...FROM_SOURCE, script.pathname];
    const child = startProcess({ name: basename(script.pathname), entry, args, env });
    ends.push(() => child.kill("SIGKILL"));
    return child;
  };
  const [required, requiredOfRestricted] = await Promise.all([
    getHeader(gateway, JOB_PATH),
    getHeader(gateway, RESTRICTED_PATH),
  ]);
  const pool = join(dir, "pool");
  const requiredFile = join(dir, "required");
  writeFileSync(requiredFile, required);
  const signing = start(new URL("./sign-pool.ts", import.meta.url), [requiredFile, String(poolSize), pool]);
  const { chain } = connectDevnet(devnet);
  const [fundedKey, ...payers] = await Promise.all(
    Array.from({ length: 1 + PAYERS }, async () => (await newPayer({ chain })).privateKey),
  );
  const known = await buyLarge(gateway, createPay(requiredIn(required))(fundedKey as Hex));
  await signing.waitForEvent("pool.signed");
  const pricingHttp = String(pricing.process.events("service.started").at(-1)?.["httpAddress"]);
  const keys = { payers, fundedKey: fundedKey as Hex };
  return { dir, gateway, pricing, pricingHttp, ...keys, required, requiredOfRestricted, known, pool, start };
}

async function startDevnet(ends: Ends): Promise<Devnet> {
  const ports = { rpc: 0, facilitator: 0, control: 0 };
  const provided = await provideDevnet({ env: process.env, ports, blockTimeMs: BLOCK_MS });
  if ("missing" in provided) throw new Error(provided.missing);
  ends.push(() => provided.part.kill());
  return provided.devnet;
}

async function startPricing(configDir: string, env: NodeJS.ProcessEnv, ends: Ends): Promise<Part> {
  const addresses = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const args = ["pricing", "--config-dir", configDir, ...addresses];
  const pricing = await startPart({ name: "pricing", args, env });
  ends.push(() => pricing.kill("SIGKILL"));
  return pricing;
}

/** Default settings, except that quotes outlast the rounds and a proxy is trusted. */
function tablesFor(devnet: Devnet, redisUrl: string) {
  const { callerRegistry: contract, rpcUrl: rpc_url, chainId: chain_id } = devnet;
  return {
    postern: { drain_secs: 0, redis: { url: redisUrl }, http: { trusted_proxies: [PROXY] } },
    x402: {
      public_url: "http://pay.test",
      facilitator_url: devnet.facilitatorUrl,
      quote_secret: newKey(),
      quote_ttl_secs: 86_400,
      max_timeout_secs: 3600,
      accepted_tokens: [{ ...devToken(devnet), confirmations: 0 }],
      job_policies: [
        {
          ...{ service_id: 1, job_index: 9, invocation_mode: "restricted_paid", contract, rpc_url },
          auth_mode: "delegated_caller_signature",
        },
      ],
    },
    pricing: {
      ...{ key: "env:POSTERN_PRICING_KEY", http_address: "127.0.0.1:0", pow_difficulty: DIFFICULTY },
      domain: { chain_id, verifying_contract: contract },
    },
    job_pricing: { "1": { "7": PRICE_WEI, "9": PRICE_WEI } },
  };
}

async function getHeader({ address }: Part, path: string): Promise<string> {
  const { status, headers } = await send(address, { path });
  if (status !== 402) throw new Error(`${path} answers an unpaid request with ${status}`);
  return String(headers["payment-required"]);
}

/** Buys a job with the body that a later attack repeats. */
async function buyLarge({ address }: Part, payment: string): Promise<string> {
  const body = Buffer.alloc(LARGE_BYTES, LARGE_BODY_BYTE);
  const headers = { "PAYMENT-SIGNATURE": payment };
  const { status, text } = await send(address, { path: JOB_PATH, headers, body });
  if (status !== 202) throw new Error(`the large purchase was answered with ${status}: ${text}`);
  return payment;
}
