import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TomlTable } from "smol-toml";
import type { DevAccount, Hex } from "../../services/devnet/chain.ts";
import { createProducer, type Inject, type Producer } from "../../services/producer/producer.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { startRedis } from "../../shared/dev/redis.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { startX402, type TestX402, x402Table } from "../fixtures/x402.ts";
import { startTestDevnet, type TestDevnet } from "../support/devnet.ts";
import { makePayment } from "../support/made-payment.ts";
import { randomNonce, signAuthorization } from "../support/sign-payment.ts";
import { tempDir } from "../support/temp-dir.ts";

export const PRICE = 3_200_000n;
/** Where nobody looks by himself while a test runs. */
const FAR_OFF_MS = 3_600_000;

export type Ran = { code: number | null; stdout: string; stderr: string };
export type Fixture = Awaited<ReturnType<typeof startFixture>>;

export type Claimed = {
  payer: string;
  nonce?: string;
  amount?: bigint;
  now?: number;
  /** The hash of the caller's nonce that the payment uses up. */
  callerNonce?: string;
};

/** A devnet, a Redis, a payment gateway in this process, and the built program configured for the three. */
export async function startFixture() {
  const [server, devnet] = await Promise.all([startRedis({ env: process.env }), startTestDevnet()]);
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, {
    postern: { redis: { url: server.url } },
    x402: x402Table({ devnet }) as TomlTable,
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  const work = connectForWork(new Secret(server.url), silentLogger);
  const producers: Producer[] = [];
  let x402: TestX402 = await startX402({ devnet, redisUrl: server.url });

  return {
    devnet,
    redis: work,
    x402: () => x402,
    postern: (args: readonly string[], env: NodeJS.ProcessEnv = {}, interruptAt?: RegExp) =>
      runProgram(args, { POSTERN_CONFIG_DIR: configDir, ...env }, interruptAt),

    /** Writes a payment down as a gateway does before it settles; nobody looks after it by himself. */
    async claim({
      payer,
      nonce = randomNonce(),
      amount = PRICE,
      now = Date.now(),
      callerNonce,
    }: Claimed): Promise<string> {
      const { network, token: asset, seller: pay_to, facilitatorUrl: facilitator } = devnet;
      const terms = { network, asset, pay_to, payer: payer.toLowerCase(), nonce, amount: String(amount) };
      const { call, ...made } = makePayment(terms);
      await x402.journal.claim(
        {
          ...{ ...made, facilitator, sinceBlock: 1n, call: { ...call, accepted_at: now } },
          callerNonce: callerNonce === undefined ? undefined : { hash: callerNonce, ttlMs: 600_000 },
        },
        { now, by: "a test", openMax: 100, dueAt: Date.now() + FAR_OFF_MS },
      );
      return call.id;
    },

    /** From now on calls are injected into this. */
    async startProducer(inject: Inject): Promise<void> {
      const backoff = { baseMs: 1, capMs: 2 };
      const producer = createProducer({ inject, redis: work, log: silentLogger, attempts: 2, backoff });
      producers.push(producer);
      await producer.ready();
    },

    async stopGateway(): Promise<void> {
      await x402.close();
    },

    async startGateway(): Promise<void> {
      x402 = await startX402({ devnet, redisUrl: server.url });
    },

    async clear(): Promise<void> {
      await Promise.all(producers.splice(0).map((producer) => producer.close(1000)));
      await devnet.control.clearFaults();
      await devnet.control.clearRequests();
      await work.flushdb();
    },

    async stop(): Promise<void> {
      await Promise.all(producers.map((producer) => producer.close(1000)));
      await x402.close();
      work.disconnect();
      await devnet.stop();
      await server.stop();
    },
  };
}

/** Money to the seller by an authorization that no gateway has seen. Resolves with its nonce once it is in a block. */
export async function payOnChain(devnet: TestDevnet, payer: DevAccount, value = PRICE): Promise<Hex> {
  const { token, chainId, seller: to } = devnet;
  const signed = await signAuthorization({ payer, to, value, token, chainId });
  await devnet.chain.frontRun(signed);
  return signed.authorization.nonce;
}

const main = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));

/** Runs the built program without a terminal; once it has printed what `interruptAt` matches it gets a Ctrl-C. */
function runProgram(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  interruptAt: RegExp | undefined,
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ran = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => {
      const before = interruptAt?.test(ran.stdout);
      ran.stdout += chunk.toString();
      if (!before && interruptAt?.test(ran.stdout)) child.kill("SIGINT");
    });
    child.stderr.on("data", (chunk: Buffer) => {
      ran.stderr += chunk.toString();
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...ran }));
  });
}

export function jsonLines({ stdout }: Ran): Record<string, unknown>[] {
  const lines = stdout.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
