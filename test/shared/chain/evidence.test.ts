import { beforeEach, expect, test } from "vitest";
import type { Chain } from "../../../shared/chain/chain.ts";
import type { TokenAuthorization } from "../../../shared/chain/payment-schemes.ts";
import { toQuantity } from "../../../shared/chain/rpc.ts";
import { ASSET, payer, SELLER, useTokenChain } from "../../fixtures/token-chain.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { answerWith, faultyNode, forward, type Rpc } from "../../support/node-before.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);
let chain: Chain;
let since: bigint;
beforeEach(async () => {
  chain = chainOf({ confirmations: 1 });
  since = (await fixture.block()).number;
});

/** Seconds after the end of an authorization at which every node is assumed to have the logs. */
const LONG_AFTER = 301n;

/** Makes all earlier blocks final. */
const finalize = () => fixture.mine(2);

test("a payment counts as paid once it is as deep as configured, and only as seen before", async () => {
  const its = await fixture.authorization();
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });

  const transaction = await fixture.pay(its);
  const { number: block } = await fixture.block();
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open", seen: { transaction, block } });
  expect(await chainOf({ confirmations: 0 }).evidenceOf(its, { since })).toEqual({
    kind: "paid",
    transaction,
    block,
    position: 1,
  });

  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "paid", transaction, block, position: 1 });
  expect(await chainOf({ confirmations: 2 }).evidenceOf(its, { since })).toMatchObject({ kind: "open" });
  expect(await chain.proofOf(transaction, its)).toEqual({ kind: "paid", position: 1, block });
});

test("an authorization is found in any letter case of its hex digits", async () => {
  const its = await fixture.authorization();
  const transaction = await fixture.pay(its);
  const block = (await fixture.block()).number;
  await fixture.mine(1);
  const upper = (hex: string) => `0x${hex.slice(2).toUpperCase()}` as const;
  const lowered = {
    from: upper(its.from),
    to: upper(its.to),
    nonce: upper(its.nonce),
    asset: upper(its.asset),
  };
  expect(await chain.evidenceOf({ ...its, ...lowered }, { since })).toEqual({
    kind: "paid",
    transaction,
    block,
    position: 1,
  });
});

test("an unused authorization expires only by the time of a finalized block", async () => {
  const its = await fixture.authorization({}, 1000n);
  await fixture.mine(5);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" }); // although our clock is a century ahead

  await fixture.mineAt(its.validBefore);
  await finalize();
  // The finalized block has the time of `validBefore`. It is the last block that is not past it.
  expect((await fixture.block("finalized")).timestamp).toBe(its.validBefore);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });

  const late = await fixture.authorization({}, 1000n);
  await fixture.mineAt(late.validBefore + 1n);
  expect(await chain.evidenceOf(late, { since })).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(late, { since })).toEqual({ kind: "open" });
  await fixture.mine(1);
  const { number: block } = await fixture.block("finalized");
  expect(await chain.evidenceOf(late, { since })).toEqual({ kind: "unpaid", reason: "expired", block });
});

test("a payment stays paid after its window", async () => {
  const its = await fixture.authorization({}, 1000n);
  const transaction = await fixture.pay(its);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });
});

test("a cancelled authorization never paid, once its cancellation is final", async () => {
  const its = await fixture.authorization();
  await fixture.cancel(its);
  const { number: block } = await fixture.block();
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "unpaid", reason: "cancelled", block });
});

test("an authorization that was cancelled after its expiry never paid", async () => {
  const its = await fixture.authorization({}, 1000n);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  await fixture.cancel(its);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "unpaid", reason: "expired" });
});

type Spend = (its: TokenAuthorization) => Promise<unknown>;
const OTHERWISE: [string, Spend][] = [
  ["by receiveWithAuthorization, to the payer", (its) => fixture.receive({ ...its, to: payer.address })],
  ["to another address", (its) => fixture.pay({ ...its, to: ASSET })],
  ["with another value", (its) => fixture.pay({ ...its, value: its.value - 1n })],
  [
    "in a batch with another authorization that does pay",
    async (its) => fixture.batch([{ ...its, to: payer.address }, await fixture.authorization()]),
  ],
];

test.each(sample(OTHERWISE, 2))(
  "an authorization whose nonce is spent %s has not paid",
  async (_how, spend) => {
    const its = await fixture.authorization();
    await spend(its);
    const { number: block } = await fixture.block();
    await fixture.mine(1);
    expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
    await fixture.mine(1);
    expect(await chain.evidenceOf(its, { since })).toEqual({
      kind: "unpaid",
      reason: "spent_otherwise",
      block,
    });
  },
);

test("one transaction pays every authorization of its batch", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization({ value: 7n })];
  const transaction = await fixture.batch([5n, one, two, 6n]);
  await fixture.mine(1);
  for (const its of [one, two]) {
    expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });
  }
});

test("an authorization spent before the claim is no payment, but a contradiction that an operator must review", async () => {
  for (const spend of [fixture.pay, fixture.cancel]) {
    const its = await fixture.authorization({}, 1000n);
    await spend(its);
    const later = (await fixture.block()).number + 1n;
    await fixture.mine(1);
    expect(await chain.evidenceOf(its, { since: later })).toEqual({ kind: "open" });
    await fixture.mineAt(its.validBefore + LONG_AFTER);
    await finalize();
    expect(await chain.evidenceOf(its, { since: later })).toMatchObject({ kind: "contradiction" });
  }
});

test("a payment that a reorganisation removes no longer counts as paid", async () => {
  const its = await fixture.authorization({}, 5000n);
  const id = await fixture.client.snapshot();
  const transaction = await fixture.pay(its);
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });

  await fixture.client.revert({ id });
  expect(await chain.proofOf(transaction, its)).toBeUndefined();
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
  expect(await chain.evidenceOf(its, { since: since + 99n })).toEqual({ kind: "open" }); // claimed at a head that a reorganisation has removed
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "unpaid", reason: "expired" });
});

test("an asset without authorizationState gives no evidence", async () => {
  const its = await fixture.authorization({ asset: SELLER }, 1000n);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  await expect(chain.evidenceOf(its, { since })).rejects.toMatchObject({ code: "payment.unavailable" });
});

test("a node whose logs are behind does not make a paid authorization look unpaid", async () => {
  const { url } = await nodeThat((rpc, res) => rpc.method === "eth_getLogs" && answerWith([], rpc, res));
  const behind = chainOf({ rpcUrl: url });
  const its = await fixture.authorization({}, 1000n);
  await fixture.pay(its);
  await finalize();
  expect(await behind.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await fixture.mineAt(its.validBefore + LONG_AFTER - 1n);
  await finalize();
  expect(await behind.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await fixture.mineAt(its.validBefore + LONG_AFTER);
  await finalize();
  expect(await behind.evidenceOf(its, { since })).toMatchObject({ kind: "contradiction" });
});

const BOTH_ORDERS = [
  ["used_first", {}],
  ["transfer_first", { transferFirst: true }],
  ["used_first", { eventBetween: true }],
  ["transfer_first", { transferFirst: true, eventBetween: true }],
] as const;

test.each(sample(BOTH_ORDERS, 2))(
  "each payment of a batch has a transfer of its own, of a token with event_order %s that does %j",
  async (eventOrder, oddities) => {
    const asset = await fixture.oddToken(oddities);
    const its = () => fixture.authorization({ asset, eventOrder });
    const [one, two] = [await its(), await its()];
    const transaction = await fixture.batch([5n, one, two, 6n], asset);
    await fixture.mine(1);
    const evidence = [await chain.evidenceOf(one, { since }), await chain.evidenceOf(two, { since })];
    expect(evidence).toMatchObject([
      { kind: "paid", transaction },
      { kind: "paid", transaction },
    ]);
    expect(new Set(evidence.map((each) => "position" in each && each.position)).size).toBe(2);
  },
);

onlyInLongRun(() => {
  test("a transfer does not prove two payments if event_order is wrong for the token, and the payment without a transfer is in review", async () => {
    const asset = await fixture.oddToken({ transferFirst: true });
    const single = await fixture.authorization({ asset });
    await fixture.pay(single);
    const [one, two] = [await fixture.authorization({ asset }), await fixture.authorization({ asset })];
    await fixture.batch([one, two], asset);
    await finalize();
    const evidence = await Promise.all([single, one, two].map((its) => chain.evidenceOf(its, { since })));
    expect(evidence.map(({ kind }) => kind)).toEqual(["contradiction", "paid", "contradiction"]);
    for (const each of [evidence[0], evidence[2]])
      expect(each).toMatchObject({ reason: expect.stringContaining('event_order = "used_first"') });
  });
});

test("the right amount in one transaction with an authorization that paid the payer is in review once it is final", async () => {
  const its = await fixture.authorization();
  await fixture.batch([its.value, { ...its, to: payer.address }, its.value]);
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "contradiction" });
});

const FEES = [
  ["used_first", { feeBps: 100 }],
  ["used_first", { feeBps: 100, feeLast: true }],
  ["transfer_first", { feeBps: 100, transferFirst: true }],
  ["transfer_first", { feeBps: 100, feeLast: true, transferFirst: true }],
] as const;

test.each(sample(FEES))(
  "a payment in a token that keeps a part of each transfer was not made, in either order of events: %s, %j",
  async (eventOrder, oddities) => {
    const asset = await fixture.oddToken(oddities);
    const its = await fixture.authorization({ asset, eventOrder });
    await fixture.pay(its);
    await fixture.mine(1);
    expect(await chain.evidenceOf(its, { since })).toEqual({ kind: "open" });
    await finalize();
    expect(await chain.evidenceOf(its, { since })).toMatchObject({
      kind: "contradiction",
      reason: expect.stringContaining("transferred 990 of 1000 units"),
    });
  },
);

const WRONG_ORDERS = [
  ["used_first", { transferFirst: true }],
  ["transfer_first", {}],
] as const;
test.each(sample(WRONG_ORDERS))(
  "payments of several payers in one transaction are never void if event_order is wrong (%s, %j)",
  async (eventOrder, oddities) => {
    const asset = await fixture.oddToken(oddities);
    const sums = [1000n, 2000n, 3000n];
    const all = await Promise.all(sums.map((value) => fixture.authorization({ asset, eventOrder, value })));
    await fixture.batch(all, asset);
    await finalize();
    const evidence = await Promise.all(all.map((its) => chain.evidenceOf(its, { since })));
    expect(evidence.map(({ kind }) => kind)).toEqual(Array(3).fill("contradiction"));
  },
);

onlyInLongRun(() => {
  test("a payment in a transaction whose receipt is too long to be read is in review once it is final", async () => {
    const { url } = await nodeThat((rpc, res) => {
      if (rpc.method !== "eth_getTransactionReceipt") return false;
      res.end(JSON.stringify({ jsonrpc: "2.0", id: rpc.id, result: "x".repeat(9 * 1024 * 1024) }));
      return true;
    });
    const its = await fixture.authorization();
    const transaction = await fixture.pay(its);
    const blind = chainOf({ rpcUrl: url });
    await fixture.mine(1);
    expect(await blind.evidenceOf(its, { since })).toEqual({ kind: "open" });
    expect(await blind.proofOf(transaction, its)).toMatchObject({ kind: "none" });
    await finalize();
    expect(await blind.evidenceOf(its, { since })).toMatchObject({
      kind: "contradiction",
      reason: expect.stringContaining(transaction),
    });
  });
});

test("a node that has reported its final block still counts as able to, even if it refuses once", async () => {
  let ills: Parameters<typeof faultyNode>[1] = { finalizes: 20 };
  const { url } = await nodeThat((rpc, res) => faultyNode(fixture.rpcUrl, ills)(rpc, res));
  const its = chainOf({ rpcUrl: url, voidDepth: 2 });
  const unpaid = await fixture.authorization({}, 1000n);
  await fixture.mineAt(unpaid.validBefore + 1n);
  await fixture.mine(5);
  expect(await its.evidenceOf(unpaid, { since })).toEqual({ kind: "open" });
  ills = { finalized: false };
  expect(await its.evidenceOf(unpaid, { since })).toEqual({ kind: "open" });
});

onlyInLongRun(() => {
  test("a search that the node interrupts leaves the payment open, and continues from the same block", async () => {
    let answers = 3;
    const { url, asked } = await nodeThat((rpc, res) => {
      if (rpc.method !== "eth_getLogs") return false;
      const ills = answers > 0 ? { logRange: 10, logs: false } : ({ rateLimit: "error" } as const);
      const [{ fromBlock, toBlock }] = rpc.params as [{ fromBlock: string; toBlock: string }];
      if (BigInt(toBlock) - BigInt(fromBlock) < 10n) answers -= 1;
      return faultyNode(fixture.rpcUrl, ills)(rpc, res);
    });
    const its = await fixture.authorization({}, 100_000n);
    await fixture.pay(its);
    const from = (await fixture.block()).number;
    await fixture.mine(100);
    const narrow = chainOf({ rpcUrl: url, voidDepth: 5 });
    const first = await narrow.evidenceOf(its, { since: from });
    expect(first.kind).toBe("open");
    const searched = first.kind === "open" ? (first.searched ?? 0n) : 0n;
    expect(searched).toBeGreaterThan(from);
    expect(searched).toBeLessThan(from + 40n);
    expect(asked.length).toBeLessThan(30);
  });
});

test("a payer who uses the authorization for a transfer to themselves and adds a small transfer has not paid, and the payment needs no review", async () => {
  const its = await fixture.authorization();
  await fixture.batch([{ ...its, to: payer.address }, its.value / 2n]);
  await finalize();
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "unpaid", reason: "spent_otherwise" });
});

test("a transaction of a token that lets a used nonce pass without a transfer proves nothing", async () => {
  const asset = await fixture.oddToken({ silentIfUsed: true });
  const its = await fixture.authorization({ asset });
  const paying = await fixture.pay(its);
  const silent = await fixture.pay(its);
  expect(await chain.proofOf(paying, its)).toMatchObject({ kind: "paid" });
  expect(await chain.proofOf(silent, its)).toMatchObject({ kind: "none" });
});

/** Models several nodes behind one URL. A request to the node that lags is answered as of `block`. */
function nodesOneBehindAt(block: bigint, isBehind: (rpc: Rpc) => boolean) {
  return nodeThat((rpc, res) => {
    if (!isBehind(rpc)) return false;
    const params = rpc.params.map((param) => capped(param, block));
    void forward(fixture.rpcUrl, { ...rpc, params }, res);
    return true;
  });
}

function capped(param: unknown, block: bigint): unknown {
  if (param === "latest") return toQuantity(block);
  if (typeof param !== "object" || param === null || !("toBlock" in param)) return param;
  return { ...param, toBlock: toQuantity(block) };
}

test("a payment does not become void if the node that reports the head lags behind the node that reports the final block", async () => {
  const its = await fixture.authorization({}, 1000n);
  const before = (await fixture.block()).number;
  const { url } = await nodesOneBehindAt(before, ({ params }) => (params as unknown[])[0] === "latest");
  await fixture.pay(its);
  await fixture.mineAt(its.validBefore + LONG_AFTER);
  await finalize();
  expect(await chainOf({ rpcUrl: url }).evidenceOf(its, { since })).toEqual({ kind: "open" });
  expect(await chain.evidenceOf(its, { since })).toMatchObject({ kind: "paid" });
});

test("a payment whose log is missing does not become void because of a cancellation: the final state decides", async () => {
  const its = await fixture.authorization({}, 1000n);
  const { url } = await nodeThat((rpc, res) => {
    if (rpc.method !== "eth_getLogs") return false;
    const [filter] = rpc.params as unknown as [{ topics: string[][]; toBlock: string }];
    const log = { address: ASSET, data: "0x", blockHash: `0x${"1".repeat(64)}`, logIndex: "0x0" };
    const canceled = { topics: [filter.topics[0]?.[1]], blockNumber: filter.toBlock };
    return answerWith([{ ...log, ...canceled, transactionHash: `0x${"2".repeat(64)}` }], rpc, res);
  });
  await fixture.pay(its);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  expect(await chainOf({ rpcUrl: url }).evidenceOf(its, { since })).toEqual({ kind: "open" });
});

onlyInLongRun(() => {
  test("on a chain with instant finality, one empty answer from a node whose logs lag decides nothing", async () => {
    let isBehind = true;
    const { url } = await nodeThat((rpc, res) => {
      const [tag] = rpc.params as unknown[];
      if (rpc.method === "eth_getLogs" && isBehind) return answerWith([], rpc, res);
      if (tag !== "finalized") return false;
      void forward(fixture.rpcUrl, { ...rpc, params: ["latest", false] }, res);
      return true;
    });
    const instant = chainOf({ rpcUrl: url, confirmations: 0 });
    const its = await fixture.authorization({}, 1000n);
    const transaction = await fixture.pay(its);
    expect(await instant.evidenceOf(its, { since })).toEqual({ kind: "open" });
    await fixture.mineAt(its.validBefore + 1n);
    expect(await instant.evidenceOf(its, { since })).toEqual({ kind: "open" });
    isBehind = false;
    expect(await instant.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });
  });
});

const nodeWith = (ills: Parameters<typeof faultyNode>[1]) => nodeThat(faultyNode(fixture.rpcUrl, ills));

onlyInLongRun(() => {
  test("without the tag finalized, a payment is still found, and one that can no longer be made is void at void_depth", async () => {
    const { url } = await nodeWith({ finalized: false });
    const its = chainOf({ rpcUrl: url, voidDepth: 5 });
    const paid = await fixture.authorization();
    const transaction = await fixture.pay(paid);
    await fixture.mine(50);
    expect(await its.evidenceOf(paid, { since })).toMatchObject({ kind: "paid", transaction });

    const unpaid = await fixture.authorization({}, 1000n);
    await fixture.mineAt(unpaid.validBefore + 1n);
    await fixture.mine(4);
    expect(await its.evidenceOf(unpaid, { since })).toEqual({ kind: "open" });
    await fixture.mine(1);
    expect(await its.evidenceOf(unpaid, { since })).toMatchObject({ kind: "unpaid", reason: "expired" });
  });

  test("a full node without the state of the final block proves by its newest block that an authorization has expired", async () => {
    const full = chainOf({ rpcUrl: (await nodeWith({ finalizes: 20, states: 8 })).url });
    const unpaid = await fixture.authorization({}, 1000n);
    const paid = await fixture.authorization();
    const transaction = await fixture.pay(paid);
    await fixture.mineAt(unpaid.validBefore + 1n);
    expect(await full.evidenceOf(paid, { since })).toMatchObject({ kind: "paid", transaction });
    await fixture.mine(19);
    expect(await full.evidenceOf(unpaid, { since })).toEqual({ kind: "open" });
    await fixture.mine(1);
    expect(await full.evidenceOf(unpaid, { since })).toMatchObject({ kind: "unpaid", reason: "expired" });
  });
});

test("a node that does not know the block that was just read does not prove that an authorization has expired", async () => {
  const ignorant = chainOf({ rpcUrl: (await nodeWith({ hashes: false })).url });
  const [unpaid, paid] = [await fixture.authorization({}, 1000n), await fixture.authorization({}, 1000n)];
  const transaction = await fixture.pay(paid);
  await fixture.mineAt(unpaid.validBefore + LONG_AFTER);
  await finalize();
  expect(await ignorant.evidenceOf(unpaid, { since })).toMatchObject({ kind: "open" });
  expect(await ignorant.evidenceOf(paid, { since })).toMatchObject({ kind: "paid", transaction });
});

onlyInLongRun(() => {
  test("with several nodes behind one URL, a payment is never void, and is found once both nodes have it", async () => {
    const { url } = await nodeWith({ lag: 4 });
    const several = chainOf({ rpcUrl: url });
    const its = await fixture.authorization({}, 1000n);
    const transaction = await fixture.pay(its);
    await fixture.mineAt(its.validBefore + LONG_AFTER);
    const kinds = new Set<string>();
    let searched: bigint | undefined;
    for (let look = 0; look < 12; look++) {
      const evidence = await several
        .evidenceOf(its, { since, searched })
        .catch(() => ({ kind: "unavailable" as const }));
      kinds.add(evidence.kind);
      if (evidence.kind === "open") searched = evidence.searched;
      if (evidence.kind === "paid") expect(evidence).toMatchObject({ transaction });
      await fixture.mine(1);
    }
    expect([...kinds].filter((kind) => kind === "unpaid" || kind === "contradiction")).toEqual([]);
    expect(kinds).toContain("paid");
  });
});

test("a search continues where the previous one ended, and ends at the first block after the authorization's expiry", async () => {
  const { url, asked } = await nodeWith({ logRange: 10, logs: false });
  const narrow = chainOf({ rpcUrl: url, voidDepth: 5 });
  const its = await fixture.authorization({}, 1000n);
  await fixture.pay(its);
  await fixture.mine(30);
  const from = (await fixture.block()).number;
  const first = await narrow.evidenceOf(its, { since });
  expect(first).toEqual({ kind: "open", searched: from - 5n });
  await fixture.mineAt(its.validBefore + 1n);
  await fixture.mine(300);
  asked.length = 0;
  const searched = first.kind === "open" ? first.searched : undefined;
  expect(await narrow.evidenceOf(its, { since, searched })).toMatchObject({ kind: "open" });
  const ranges = asked.filter(({ method }) => method === "eth_getLogs").map(({ params: [range] }) => range);
  expect(BigInt(ranges[0]?.fromBlock ?? 0)).toBe(from - 4n);
  expect(asked.length).toBeLessThan(12);
});

test("each check of an unused authorization costs two requests, even if its claim is old", async () => {
  const { url, asked } = await nodeThat(() => false);
  const its = await fixture.authorization({}, 100_000n);
  const steady = chainOf({ rpcUrl: url });
  await steady.freshHead();
  await fixture.mine(200);
  asked.length = 0;
  expect(await steady.evidenceOf(its, { since })).toEqual({ kind: "open" });
  expect(asked.map(({ method }) => method)).toEqual(["eth_getBlockByNumber", "eth_call"]);
});

test.each(sample(["status", "error"] as const))(
  "a provider that limits the rate, by %s, is not asked for smaller ranges, and is asked again after a longer pause each time",
  async (how) => {
    const its = await fixture.authorization();
    const transaction = await fixture.pay(its);
    await fixture.mine(1);
    let [isLimited, now] = [true, 1_800_000_000_000];
    const { url, asked } = await nodeThat(
      (rpc, res) => isLimited && rpc.method === "eth_getLogs" && faultyNode("", { rateLimit: how })(rpc, res),
    );
    const limited = chainOf({ rpcUrl: url }, recordingLog(), () => now);
    const searches = () => asked.filter(({ method }) => method === "eth_getLogs").length;
    const look = (afterMs: number) => {
      now += afterMs;
      return limited.evidenceOf(its, { since }).catch((error: { code: string }) => error.code);
    };
    const unavailable = "payment.unavailable";
    expect([await look(0), await look(999), searches()]).toEqual([unavailable, unavailable, 1]);
    expect([await look(1), await look(1999), searches()]).toEqual([unavailable, unavailable, 2]);
    isLimited = false;
    expect(await look(1)).toMatchObject({ kind: "paid", transaction });
  },
);
