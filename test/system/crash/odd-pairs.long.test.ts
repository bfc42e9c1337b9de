import type { TomlTable } from "smol-toml";
import { afterEach, beforeAll, expect, test } from "vitest";
import type { z } from "zod";
import type { Hex, Oddities } from "../../../services/dev/chain/chain.ts";
import type { NodeFaults } from "../../../services/dev/chain/node.ts";
import type { EventOrder } from "../../../shared/chain/proof.ts";
import { devToken } from "../../../shared/dev/config.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { violationsIn } from "../../support/books.ts";
import { newPayer } from "../../support/devnet.ts";
import { createBuyer, type Purchase } from "../fleet/buyer.ts";

/**
 * POSTERN_TEST_PAIRS=all runs every token with every node and every failpoint. Without it, each of them occurs at least
 * once.
 */
const ALL = process.env["POSTERN_TEST_PAIRS"] === "all";
const PATH = "/x402/jobs/1/1";
/** Time after which the pair cannot reach the failpoint. Then the node is repaired. */
const REACHED_MS = 3000;

const TOKENS: [asset: Hex, event_order: EventOrder, oddities: z.input<typeof Oddities>][] = [
  [`0x${"a1".repeat(20)}`, "used_first", {}],
  [`0x${"a2".repeat(20)}`, "used_first", { eventBetween: true }],
  [`0x${"a3".repeat(20)}`, "transfer_first", { transferFirst: true }],
  [`0x${"a4".repeat(20)}`, "transfer_first", { transferFirst: true, eventBetween: true }],
  [`0x${"a5".repeat(20)}`, "used_first", { silentIfUsed: true }],
];

const NODES: z.input<typeof NodeFaults>[] = [
  { finalized: false },
  { finalizes: 50, states: 4 },
  { logRange: 10 },
  { lag: 3 },
  { logs: false },
  { latencyMs: 80, receiptsLate: true },
  { rateLimit: "status" },
  { rateLimit: "error" },
];

const POINTS: readonly Failpoint[] = [
  "x402.after_verify",
  "x402.after_claim",
  "x402.after_settle",
  "x402.after_queued",
  "x402.after_answer",
];

const devnet = useDevnet();
beforeAll(async () => {
  for (const [asset, , oddities] of TOKENS) await devnet.chain.oddToken(asset, oddities);
});
const stack = useStack(() => {
  const { rpc_url: _, ...token } = devToken(devnet);
  const accepted_tokens = TOKENS.map(
    ([asset, event_order]): TomlTable => ({
      ...token,
      ...{ asset, event_order, symbol: `T${asset.slice(2, 4)}` },
      ...{ rpc_url: devnet.nodeUrl, confirmations: 1, void_depth: 30 },
    }),
  );
  return {
    endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
    x402: {
      toml: { ...x402Table({ devnet }), settle_timeout_secs: 2, accepted_tokens },
      prices: { "1": { "1": "1000000000000000" } },
      gateways: 2,
    },
  };
});

beforeAll(() => Promise.all(stack.x402.map(untilSelling)));
afterEach(() => devnet.control.setNodeFaults({}));

let deaths = 0;

type Pair = { token: number; node: number; point: Failpoint };

function pairs(): Pair[] {
  const point = (i: number) => POINTS[i % POINTS.length] as Failpoint;
  if (!ALL) return NODES.map((_, i) => ({ token: i % TOKENS.length, node: i, point: point(3 * i) }));
  return TOKENS.flatMap((_, token) =>
    NODES.flatMap((__, node) => POINTS.map((_point, i) => ({ token, node, point: point(i) }))),
  );
}

/**
 * Buys two jobs with this token and this node from a gateway that is killed meanwhile. Afterwards the node is repaired.
 */
async function round({ token, node, point }: Pair): Promise<Purchase[]> {
  const [asset] = TOKENS[token] as (typeof TOKENS)[number];
  const [gateway] = stack.x402 as [Part, Part];
  const buyer = createBuyer({ devnet, path: PATH });
  const purchases = await Promise.all(
    [0, 1].map(async () => {
      const payer = await newPayer(devnet);
      await devnet.chain.mint(payer.address, 1_000_000_000n, asset);
      return buyer.sign(gateway, { payer, version: 2, body: point, asset });
    }),
  );
  await gateway.restart({ POSTERN_FAILPOINT: point });
  await untilSelling(gateway);
  await devnet.control.setNodeFaults(NODES[node] ?? {});
  const died = gateway.process.exit;
  const bought = purchases.map((purchase) => buyer.buy(stack.x402, purchase, 1));
  const { kind } = await within(REACHED_MS, died);
  if (kind === "done") deaths += 1;
  const restarted = gateway.restart();
  await devnet.control.setNodeFaults({}); // repaired before the start, which would fail on a node that lacks states
  await restarted;
  await Promise.all(bought);
  await untilReady(gateway);
  return purchases;
}

/** Returns the violations in the sales in one token. */
async function violationsOf(asset: Hex, purchases: readonly Purchase[]): Promise<string[]> {
  const { chainId, seller, chain } = devnet;
  const sold = new Set(purchases.flatMap(({ callIds }) => callIds));
  return violationsIn({
    ...{ chainId, asset, voids: [] },
    transfers: await chain.transfers(seller, asset),
    calls: stack.effects().flatMap(({ callId }) => (sold.has(callId) ? [callId] : [])),
    told: purchases.flatMap(({ told }) => told),
  });
}

test("a gateway killed during a payment loses and doubles nothing, with every unusual token and every faulty node", {
  timeout: ALL ? 3_600_000 : 180_000,
}, async () => {
  const bought = TOKENS.map((): Purchase[] => []);
  for (const pair of pairs()) {
    const purchases = await round(pair);
    bought[pair.token]?.push(...purchases);
    const what = JSON.stringify({ ...pair, oddities: TOKENS[pair.token]?.[2], ills: NODES[pair.node] });
    const answers = purchases.map(({ told }) => told.at(-1));
    expect(answers, what).toEqual(Array(2).fill(expect.objectContaining({ status: 202 })));
    const callIds = purchases.map(({ callIds: [id] }) => String(id));
    await eventually(`each job has run: ${what}`, () =>
      stack.effectsOf(callIds).every((count) => count === 1),
    );
  }
  for (const [i, [asset]] of TOKENS.entries())
    expect(await violationsOf(asset, bought[i] ?? []), asset).toEqual([]);
  // If a node never answers, no payment gets as far as its claim.
  expect(deaths, "gateways that died where they should").toBeGreaterThan(0.6 * pairs().length);
  expect(await stack.redis.client.zcard(keys.paymentsInReview)).toBe(0);
  expect(stack.effects()).toHaveLength(bought.flat().length);
});
