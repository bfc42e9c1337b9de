import { createPublicClient, http, parseAbi, parseAbiItem } from "viem";
import { Secret } from "../../shared/crypto/secret.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import type { Eip712Domain } from "../../shared/ethereum/typed-data.ts";
import type { Shutdown } from "../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createPaymentList } from "../../shared/payments/list.ts";
import { askForQuote } from "../../shared/pricing/job-quote.ts";
import { loadPricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { whenReady } from "../../shared/redis/ready.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { type Buyer, createBuyer, createPaymentLedger, type Order, type PaymentLedger } from "./buyer.ts";
import { httpRequest } from "./sender.ts";
import { SERVICE_ID, type World } from "./world.ts";

/** Each is charged in one scenario only, so that all its charges are that scenario's. */
const BUYERS = [
  "version 2",
  "version 1",
  "five at once",
  "lost reply",
  "killed gateway",
  "denied",
  "signed quote",
] as const;

/** Tokens by owner: the buyers by name, and the seller. */
export type Balances = ReadonlyMap<string, bigint>;

/** What the paid scenarios need: jobs for sale, buyers, and views of everything that takes part in a payment. */
export type PaymentFixture = {
  readonly devnet: Devnet;
  readonly gateway: Part;
  readonly engine: PricingEngine;
  readonly chain: ChainView;
  readonly facilitator: FacilitatorView;
  readonly journal: JournalView;
  readonly ledger: PaymentLedger;
  /** Before anything was bought. */
  readonly before: Balances;
  buyer(name: (typeof BUYERS)[number]): Buyer;
  order(jobId: number, body: string): Order;
  balances(): Promise<Balances>;
};

export async function createPaymentFixture(
  world: World,
  devnet: Devnet,
  gateway: Part,
  pricing: Part,
  shutdown: Shutdown,
): Promise<PaymentFixture> {
  const journal = await openJournalView(world.redisUrl);
  shutdown.defer("journal view", () => journal.close());
  const chain = createChainView(devnet);
  const ledger = createPaymentLedger();
  const buyers = BUYERS.map((name, i) => {
    const account = devnet.payers[i];
    if (account === undefined) throw new Error(`expected: a payer for "${name}"`);
    return createBuyer({ name, account, devnet, gateway: gateway.address, ledger });
  });
  const owners = [...buyers, { name: "seller", address: devnet.seller }];

  async function balances(): Promise<Balances> {
    const balanceOf = async ({ name, address }: (typeof owners)[number]) =>
      [name, await chain.balanceOf(address)] as const;
    return new Map(await Promise.all(owners.map(balanceOf)));
  }

  return {
    devnet,
    gateway,
    engine: connectEngine(pricing, world),
    chain,
    facilitator: createFacilitatorView(devnet),
    journal,
    ledger,
    before: await balances(),
    buyer(name) {
      const buyer = buyers.find((each) => each.name === name);
      if (buyer === undefined) throw new Error(`expected: a buyer "${name}"`);
      return buyer;
    },
    order: (jobId, body) => ({ jobId, path: `/x402/jobs/${SERVICE_ID}/${jobId}`, body }),
    balances,
  };
}

type Hex = `0x${string}`;

/** Reads the devnet's chain without any of Postern's code. */
type ChainView = {
  chainId(): Promise<number>;
  /** In the token's smallest units. */
  balanceOf(owner: Hex): Promise<bigint>;
  /** Transfers of tokens to the seller, oldest first; of one payer, or of all. */
  charges(payer?: Hex): Promise<{ units: bigint; transaction: string }[]>;
};

const BALANCE_OF = parseAbi(["function balanceOf(address owner) view returns (uint256)"]);
const TRANSFER = parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)");

function createChainView({ rpcUrl, token, seller }: Devnet): ChainView {
  const client = createPublicClient({ transport: http(rpcUrl), cacheTime: 0 });
  return {
    chainId: () => client.getChainId(),
    balanceOf: (owner) =>
      client.readContract({ address: token, abi: BALANCE_OF, functionName: "balanceOf", args: [owner] }),
    async charges(payer) {
      const args = { to: seller, ...(payer && { from: payer }) };
      const logs = await client.getLogs({
        address: token,
        event: TRANSFER,
        args,
        strict: true,
        fromBlock: 0n,
      });
      return logs.map((log) => ({ units: log.args.value, transaction: log.transactionHash }));
    },
  };
}

/** How often the facilitator was asked about a payer. */
type Asked = { verify: number; settle: number };

/** Reads and steers the devnet's facilitator through its control port. */
type FacilitatorView = {
  askedAbout(payer: string): Promise<Asked>;
  /** The facilitator carries the next settle request out, and its answer is lost. */
  loseNextReply(): Promise<void>;
};

function createFacilitatorView({ controlUrl }: Devnet): FacilitatorView {
  const { host } = new URL(controlUrl);
  return {
    async askedAbout(payer) {
      const { text } = await httpRequest(host, { method: "GET", path: "/requests" });
      const { requests } = JSON.parse(text) as { requests: { on: keyof Asked; payer?: string }[] };
      const about = requests.filter((request) => request.payer === payer.toLowerCase());
      const count = (on: keyof Asked): number => about.filter((request) => request.on === on).length;
      return { verify: count("verify"), settle: count("settle") };
    },
    async loseNextReply() {
      const body = JSON.stringify({ on: "settle", kind: "drop", acts: true, times: 1 });
      const { status, text } = await httpRequest(host, { method: "POST", path: "/faults", body });
      if (status !== 201) throw new Error(`expected: the control port takes a fault; it answered ${text}`);
    },
  };
}

type JournalView = {
  /** The payments that x402 gateways have recorded as settled since this view was opened. */
  settled(): Promise<{ id: string; units: bigint }[]>;
  close(): void;
};

const REDIS_DEADLINE_MS = 5000;

/** Reads the gateways' payment journal from outside. */
async function openJournalView(redisUrl: string): Promise<JournalView> {
  const since = systemClock();
  const redis = connectForRequests(new Secret(redisUrl), silentLogger);
  await whenReady(redis, REDIS_DEADLINE_MS);
  const list = createPaymentList(partitionOf(redis));
  return {
    async settled() {
      const found: { id: string; units: bigint }[] = [];
      for await (const { id, terms, settlement } of list.matching({ since })) {
        if (settlement !== undefined) found.push({ id, units: BigInt(terms.amount) });
      }
      return found;
    },
    close: () => redis.disconnect(),
  };
}

/** The answer of the engine, as far as it is shown. */
export type QuoteReply = {
  quote_details: Record<string, string>;
  operator_id: string;
  settlement_options: { network: string; asset: string; symbol: string; amount: string; pay_to: string }[];
  x402_endpoint: string;
  quote_header: string;
};

/** The pricing engine, as its client sees it. */
export type PricingEngine = {
  readonly domain: Eip712Domain;
  readonly difficulty: number;
  /** Does the proof of work, and asks what this order costs. */
  quote(order: Order, requester: string): Promise<QuoteReply>;
};

function connectEngine(part: Part, { configDir, env }: World): PricingEngine {
  const { pricing } = loadPricingConfig({ dir: configDir, env });
  if (pricing === undefined) throw new Error("expected: a pricing engine");
  const address = String(part.process.events("service.started").at(-1)?.["httpAddress"]);
  const { domain, pow_difficulty: difficulty } = pricing;
  return {
    domain,
    difficulty,
    async quote({ jobId, body }, requester) {
      const wanted = {
        serviceId: Number(SERVICE_ID),
        jobIndex: jobId,
        requester,
        inputs: Buffer.from(body),
        difficulty,
      };
      const { status, text } = await httpRequest(address, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        ...askForQuote(wanted, { clock: systemClock }),
      });
      if (status !== 200) throw new Error(`expected: a quote; the engine answers ${status} ${text}`);
      return JSON.parse(text) as QuoteReply;
    },
  };
}
