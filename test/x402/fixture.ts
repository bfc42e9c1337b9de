import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { callIdFrom } from "../../shared/job-call/call-id.ts";
import { type DevAccount, newPayer, startTestDevnet, type TestDevnet } from "../support/devnet.ts";
import type { Answer } from "../support/http.ts";
import { startX402, type TestX402, type TestX402Options } from "../support/x402.ts";
import { type Books, codeOf, paymentIn, type Told, violationsIn } from "../support/x402-audit.ts";

export const PRICE = 3_200_000n;

export type Fixture = {
  redis: PrivateRedis;
  devnet: TestDevnet;
  /** Somebody new, with money, in each test. */
  payer: DevAccount;
  /** Of this test: nonces spent past the gateway before it knew of them. */
  foreign: string[];
  /** A gateway over this fixture's Redis and devnet, closed after the test; several are replicas of one another. */
  gateway(options?: Partial<TestX402Options>): Promise<TestX402>;
  stop(gateway: TestX402): Promise<void>;
  /** What this payer was charged, from the chain. */
  charged(payer?: DevAccount): Promise<bigint[]>;
  /** How often a facilitator was asked for anything but what it supports. */
  asked(): Promise<{ verify: number; settle: number }>;
};

/** Redis and a devnet for a file's tests. After each test its books are checked: chain, queue and what clients were told. */
export function useFixture({ devnetPerTest = false } = {}): Fixture {
  const told: Told[] = [];
  let running: TestX402[] = [];
  const fixture = {
    async gateway(options = {}) {
      const gateway = await startX402({ devnet: fixture.devnet, redisUrl: fixture.redis.url, ...options });
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
    async charged(payer = fixture.payer) {
      const transfers = await fixture.devnet.chain.transfers(fixture.devnet.seller);
      return transfers.filter(({ from }) => from === payer.address.toLowerCase()).map(({ value }) => value);
    },
    async asked() {
      const { verify, settle } = await fixture.devnet.control.requests();
      return { verify, settle };
    },
  } as Fixture;

  async function note(headers: Readonly<Record<string, string>>, answer: Answer): Promise<void> {
    const payment = paymentIn(headers);
    if (payment === undefined) return;
    const { requests } = await fixture.devnet.control.requests();
    const dispatched = requests.some(
      ({ on, payer, nonce }) => on === "settle" && payer === payment.payer && nonce === payment.nonce,
    );
    told.push({ payment, status: answer.status, code: codeOf(answer), dispatched });
  }

  beforeAll(async () => {
    fixture.redis = await startRedis({ env: process.env });
    if (!devnetPerTest) fixture.devnet = await startTestDevnet();
  });
  beforeEach(async () => {
    if (devnetPerTest) fixture.devnet = await startTestDevnet();
    fixture.payer = await newPayer(fixture.devnet);
    fixture.foreign = [];
    told.length = 0;
    await fixture.devnet.control.clearRequests();
  });
  afterEach(async () => {
    try {
      await balance(fixture, told, running);
    } finally {
      for (const gateway of running) await gateway.redis.flushdb();
      await Promise.all(running.map((gateway) => gateway.close()));
      running = [];
      await fixture.devnet.control.clearFaults();
      if (devnetPerTest) await fixture.devnet.stop();
    }
  });
  afterAll(async () => {
    if (!devnetPerTest) await fixture.devnet.stop();
    await fixture.redis.stop();
  });
  return fixture;
}

/** What is under way may end first. */
async function balance(fixture: Fixture, told: readonly Told[], running: readonly TestX402[]): Promise<void> {
  const [gateway] = running;
  if (gateway === undefined) return;
  let violations: string[] = [];
  await eventually("the books balance", async () => {
    violations = violationsIn(await booksOf(fixture, told, gateway));
    return violations.length === 0;
  }).catch(() => expect(violations).toEqual([]));
}

async function booksOf(fixture: Fixture, told: readonly Told[], gateway: TestX402): Promise<Books> {
  const { chain, chainId, seller, token } = fixture.devnet;
  const calls = (await gateway.waiting()).map(({ id }) => id);
  const payers = new Set([fixture.payer.address.toLowerCase(), ...told.map(({ payment }) => payment.payer)]);
  const transfers = (await chain.transfers(seller)).filter(({ from }) => payers.has(from));
  const ids = told.map(({ payment }) =>
    callIdFrom(String(chainId), token.toLowerCase(), payment.payer, payment.nonce),
  );
  const states = await Promise.all(ids.map(async (id) => ({ id, payment: await gateway.journal.find(id) })));
  const voids = states.filter(({ payment }) => payment?.state === "VOID").map(({ id }) => id);
  return { chainId, asset: token, transfers, calls, told, voids, foreign: fixture.foreign };
}
