import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { callIdFrom } from "../../shared/job-call/call-id.ts";
import { type DevAccount, newPayer, startTestDevnet, type TestDevnet } from "../support/devnet.ts";
import type { Answer } from "../support/http.ts";
import { startX402, type TestX402, type TestX402Options } from "../support/x402.ts";
import { type Books, codeOf, paymentIn, type Told, violationsIn } from "../support/x402-audit.ts";

export const PRICE = 3_200_000n;

export type Lab = {
  redis: PrivateRedis;
  devnet: TestDevnet;
  /** Somebody new, with money, in each test. */
  payer: DevAccount;
  /** Of this test: nonces spent past the gateway before it knew of them. */
  foreign: string[];
  /** A gateway over this lab's Redis and devnet, closed after the test; several are replicas of one another. */
  gateway(options?: Partial<TestX402Options>): Promise<TestX402>;
  stop(gateway: TestX402): Promise<void>;
  /** What this payer was charged, from the chain. */
  charged(payer?: DevAccount): Promise<bigint[]>;
  /** How often a facilitator was asked for anything but what it supports. */
  asked(): Promise<{ verify: number; settle: number }>;
};

/** Redis and a devnet for a file's tests. After each test its books are checked: chain, queue and what clients were told. */
export function useLab({ devnetPerTest = false } = {}): Lab {
  const told: Told[] = [];
  let running: TestX402[] = [];
  const lab = {
    async gateway(options = {}) {
      const gateway = await startX402({ devnet: lab.devnet, redisUrl: lab.redis.url, ...options });
      running.push(gateway);
      const { post } = gateway;
      gateway.post = async (headers = {}, more = {}) => {
        const answer = await post(headers, more);
        await note(headers, answer);
        return answer;
      };
      return gateway;
    },
    async stop(gateway) {
      running = running.filter((each) => each !== gateway);
      await gateway.close();
    },
    async charged(payer = lab.payer) {
      const transfers = await lab.devnet.chain.transfers(lab.devnet.seller);
      return transfers.filter(({ from }) => from === payer.address.toLowerCase()).map(({ value }) => value);
    },
    async asked() {
      const { verify, settle } = await lab.devnet.control.requests();
      return { verify, settle };
    },
  } as Lab;

  async function note(headers: Readonly<Record<string, string>>, answer: Answer): Promise<void> {
    const payment = paymentIn(headers);
    if (payment === undefined) return;
    const { requests } = await lab.devnet.control.requests();
    const dispatched = requests.some(
      ({ on, payer, nonce }) => on === "settle" && payer === payment.payer && nonce === payment.nonce,
    );
    told.push({ payment, status: answer.status, code: codeOf(answer), dispatched });
  }

  beforeAll(async () => {
    lab.redis = await startRedis({ env: process.env });
    if (!devnetPerTest) lab.devnet = await startTestDevnet();
  });
  beforeEach(async () => {
    if (devnetPerTest) lab.devnet = await startTestDevnet();
    lab.payer = await newPayer(lab.devnet);
    lab.foreign = [];
    told.length = 0;
    await lab.devnet.control.clearRequests();
  });
  afterEach(async () => {
    try {
      await balance(lab, told, running);
    } finally {
      for (const gateway of running) await gateway.redis.flushdb();
      await Promise.all(running.map((gateway) => gateway.close()));
      running = [];
      await lab.devnet.control.clearFaults();
      if (devnetPerTest) await lab.devnet.stop();
    }
  });
  afterAll(async () => {
    if (!devnetPerTest) await lab.devnet.stop();
    await lab.redis.stop();
  });
  return lab;
}

/** What is under way may end first. */
async function balance(lab: Lab, told: readonly Told[], running: readonly TestX402[]): Promise<void> {
  const [gateway] = running;
  if (gateway === undefined) return;
  let violations: string[] = [];
  await eventually("the books balance", async () => {
    violations = violationsIn(await booksOf(lab, told, gateway));
    return violations.length === 0;
  }).catch(() => expect(violations).toEqual([]));
}

async function booksOf(lab: Lab, told: readonly Told[], gateway: TestX402): Promise<Books> {
  const { chain, chainId, seller, token } = lab.devnet;
  const calls = (await gateway.waiting()).map(({ id }) => id);
  const payers = new Set([lab.payer.address.toLowerCase(), ...told.map(({ payment }) => payment.payer)]);
  const transfers = (await chain.transfers(seller)).filter(({ from }) => payers.has(from));
  const ids = told.map(({ payment }) =>
    callIdFrom(String(chainId), token.toLowerCase(), payment.payer, payment.nonce),
  );
  const states = await Promise.all(ids.map(async (id) => ({ id, payment: await gateway.journal.find(id) })));
  const voids = states.filter(({ payment }) => payment?.state === "VOID").map(({ id }) => id);
  return { chainId, asset: token, transfers, calls, told, voids, foreign: lab.foreign };
}
