import type { Devnet, DevnetPart } from "../../../shared/dev/devnet.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import type { Shutdown } from "../../../shared/lifecycle/shutdown.ts";
import { SERVICE_ID } from "../demo-config.ts";
import { type Buyer, createBuyer, type Order } from "./buyer.ts";
import { type ChainView, createChainView } from "./chain-view.ts";
import type { Engine } from "./engine.ts";
import { createFacilitatorView, type FacilitatorView } from "./facilitator-view.ts";
import { type JournalView, openJournalView } from "./journal-view.ts";
import { createPaidTally, type PaidTally } from "./paid-tally.ts";

/** Each buys in one scene only, so that all it was charged for is that scene's. */
const BUYERS = [
  "version 2",
  "version 1",
  "five at once",
  "lost reply",
  "killed gateway",
  "denied",
  "signed quote",
] as const;
export type BuyerName = (typeof BUYERS)[number];

/** Tokens by who has them: the buyers by name, and the seller. */
export type Balances = ReadonlyMap<string, bigint>;

/** Jobs for sale, and all who have to do with it. */
export type Shop = {
  readonly devnet: Devnet;
  readonly gateway: Part;
  readonly engine: Engine;
  readonly chain: ChainView;
  readonly facilitator: FacilitatorView;
  readonly journal: JournalView;
  readonly tally: PaidTally;
  /** Before anything was bought. */
  readonly before: Balances;
  buyer(name: BuyerName): Buyer;
  order(jobId: number, body: string): Order;
  balances(): Promise<Balances>;
  /** Resolves once the gateway has reached facilitator and chain. */
  untilSelling(): Promise<void>;
};

type Options = { part: DevnetPart; gateway: Part; engine: Engine; redisUrl: string; shutdown: Shutdown };

export async function openShop({ part, gateway, engine, redisUrl, shutdown }: Options): Promise<Shop> {
  const { devnet } = part;
  const journal = await openJournalView(redisUrl);
  shutdown.defer("journal view", () => journal.close());
  const chain = createChainView(devnet);
  const tally = createPaidTally();
  const buyers = new Map(
    devnet.payers.flatMap((account, i): [string, Buyer][] => {
      const name = BUYERS[i];
      if (name === undefined) return [];
      return [[name, createBuyer({ name, account, devnet, gateway: gateway.address, tally })]];
    }),
  );
  const balances = () => readBalances(chain, { buyers: [...buyers.values()], devnet });
  return {
    devnet,
    gateway,
    engine,
    chain,
    facilitator: createFacilitatorView(devnet),
    journal,
    tally,
    before: await balances(),
    buyer(name) {
      const buyer = buyers.get(name);
      if (buyer === undefined) throw new Error(`expected: a payer for "${name}"`);
      return buyer;
    },
    order: (jobId, body) => ({ jobId, path: `/x402/jobs/${SERVICE_ID}/${jobId}`, body }),
    balances,
    untilSelling: () => untilSelling(gateway),
  };
}

async function readBalances(chain: ChainView, { buyers, devnet }: { buyers: Buyer[]; devnet: Devnet }) {
  const owners = [...buyers, { name: "seller", address: devnet.seller }];
  const read = owners.map(
    async ({ name, address }) => [name, await chain.balanceOf(address)] as [string, bigint],
  );
  return new Map(await Promise.all(read));
}
