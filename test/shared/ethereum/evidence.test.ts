import { beforeEach, expect, test } from "vitest";
import type { Chain } from "../../../shared/ethereum/chain.ts";
import type { TokenAuthorization } from "../../../shared/ethereum/logs.ts";
import { toQuantity } from "../../../shared/ethereum/rpc.ts";
import { ASSET, payer, SELLER, useTokenChain } from "../../fixtures/token-chain.ts";
import { answerWith, forward, type Rpc } from "../../support/node-before.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);
let chain: Chain;
let since: bigint;
beforeEach(async () => {
  chain = chainOf({ confirmations: 1 });
  since = (await fixture.block()).number;
});

/** No node lags so long behind the end of an authorization. */
const LONG_AFTER = 301n;

/** Makes what has happened final. */
const finalize = () => fixture.mine(2);

test("a payment is paid once it is as deep as configured, and before that only seen", async () => {
  const its = await fixture.authorization();
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });

  const transaction = await fixture.pay(its);
  const { number: block } = await fixture.block();
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open", seen: { transaction, block } });
  expect(await chainOf({ confirmations: 0 }).evidenceOf(its, since)).toEqual({
    kind: "paid",
    transaction,
    block,
  });

  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "paid", transaction, block });
  expect(await chainOf({ confirmations: 2 }).evidenceOf(its, since)).toMatchObject({ kind: "open" });
  expect(await chain.blockPaidIn(transaction, its)).toBe(block);
});

test("an authorization is found whatever the case of its hex digits", async () => {
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
  expect(await chain.evidenceOf({ ...its, ...lowered }, since)).toEqual({ kind: "paid", transaction, block });
});

test("an unused authorization is expired by the time of a finalized block and by nothing else", async () => {
  const its = await fixture.authorization({}, 1000n);
  await fixture.mine(5);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" }); // though our clock is a century ahead

  await fixture.mineAt(its.validBefore);
  await finalize();
  // the finalized block is of that second, the last that is not past it
  expect((await fixture.block("finalized")).timestamp).toBe(its.validBefore);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });

  const late = await fixture.authorization({}, 1000n);
  await fixture.mineAt(late.validBefore + 1n);
  expect(await chain.evidenceOf(late, since)).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(late, since)).toEqual({ kind: "open" });
  await fixture.mine(1);
  const { number: block } = await fixture.block("finalized");
  expect(await chain.evidenceOf(late, since)).toEqual({ kind: "unpaid", reason: "expired", block });
});

test("a payment stays paid after its window", async () => {
  const its = await fixture.authorization({}, 1000n);
  const transaction = await fixture.pay(its);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });
});

test("a cancelled authorization never paid, once its cancellation is final", async () => {
  const its = await fixture.authorization();
  await fixture.cancel(its);
  const { number: block } = await fixture.block();
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "unpaid", reason: "cancelled", block });
});

test("an authorization that expired first and is cancelled now never paid either", async () => {
  const its = await fixture.authorization({}, 1000n);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  await fixture.cancel(its);
  expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "unpaid", reason: "expired" });
});

type Spend = (its: TokenAuthorization) => Promise<unknown>;
const OTHERWISE: [string, Spend][] = [
  [
    "by receiveWithAuthorization, to the payer himself",
    (its) => fixture.receive({ ...its, to: payer.address }),
  ],
  ["to another address", (its) => fixture.pay({ ...its, to: ASSET })],
  ["with another value", (its) => fixture.pay({ ...its, value: its.value - 1n })],
  [
    "in a batch with the same transfer right before it and another after it",
    (its) => fixture.batch([its.value, { ...its, to: payer.address }, its.value]),
  ],
  [
    "in a batch with another authorization that does pay",
    async (its) => fixture.batch([{ ...its, to: payer.address }, await fixture.authorization()]),
  ],
];

test.each(OTHERWISE)("an authorization whose nonce is spent %s has not paid", async (_how, spend) => {
  const its = await fixture.authorization();
  await spend(its);
  const { number: block } = await fixture.block();
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "unpaid", reason: "spent_otherwise", block });
});

test("each authorization of a batch is paid by the same transaction", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization({ value: 7n })];
  const transaction = await fixture.batch([5n, one, two, 6n]);
  await fixture.mine(1);
  for (const its of [one, two]) {
    expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });
  }
});

test("an authorization spent before the claim is no payment, and a contradiction for a human to look at", async () => {
  for (const spend of [fixture.pay, fixture.cancel]) {
    const its = await fixture.authorization({}, 1000n);
    await spend(its);
    const later = (await fixture.block()).number + 1n;
    await fixture.mine(1);
    expect(await chain.evidenceOf(its, later)).toEqual({ kind: "open" });
    await fixture.mineAt(its.validBefore + LONG_AFTER);
    await finalize();
    expect(await chain.evidenceOf(its, later)).toMatchObject({ kind: "contradiction" });
  }
});

test("a reorganized payment is paid no more", async () => {
  const its = await fixture.authorization({}, 5000n);
  const id = await fixture.client.snapshot();
  const transaction = await fixture.pay(its);
  await fixture.mine(1);
  expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });

  await fixture.client.revert({ id });
  expect(await chain.blockPaidIn(transaction, its)).toBeUndefined();
  expect(await chain.evidenceOf(its, since)).toEqual({ kind: "open" });
  expect(await chain.evidenceOf(its, since + 99n)).toEqual({ kind: "open" }); // claimed on a head that is gone
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "unpaid", reason: "expired" });
});

test("an asset without authorizationState is evidence of nothing", async () => {
  const its = await fixture.authorization({ asset: SELLER }, 1000n);
  await fixture.mineAt(its.validBefore + 1n);
  await finalize();
  await expect(chain.evidenceOf(its, since)).rejects.toMatchObject({ code: "payment.unavailable" });
});

test("a node that is behind with its logs makes no unpaid authorization of a paid one", async () => {
  const { url } = await nodeThat((rpc, res) => rpc.method === "eth_getLogs" && answerWith([], rpc, res));
  const behind = chainOf({ rpcUrl: url });
  const its = await fixture.authorization({}, 1000n);
  await fixture.pay(its);
  await finalize();
  expect(await behind.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mineAt(its.validBefore + LONG_AFTER - 1n);
  await finalize();
  expect(await behind.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mineAt(its.validBefore + LONG_AFTER);
  await finalize();
  expect(await behind.evidenceOf(its, since)).toMatchObject({ kind: "contradiction" });
});

/** Several nodes behind one URL: what is asked of the one that is behind is answered as of `block`. */
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

test("a payment is not void where the head is told by a node that is behind the one that told what is final", async () => {
  const its = await fixture.authorization({}, 1000n);
  const before = (await fixture.block()).number;
  const { url } = await nodesOneBehindAt(before, ({ params }) => (params as unknown[])[0] === "latest");
  await fixture.pay(its);
  await fixture.mineAt(its.validBefore + LONG_AFTER);
  await finalize();
  expect(await chainOf({ rpcUrl: url }).evidenceOf(its, since)).toEqual({ kind: "open" });
  expect(await chain.evidenceOf(its, since)).toMatchObject({ kind: "paid" });
});

test("a payment whose log is not told is not void, though a cancellation is told: the final state is asked", async () => {
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
  expect(await chainOf({ rpcUrl: url }).evidenceOf(its, since)).toEqual({ kind: "open" });
});

test("where finality is instant, one empty answer from a node that is behind with its logs decides nothing", async () => {
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
  expect(await instant.evidenceOf(its, since)).toEqual({ kind: "open" });
  await fixture.mineAt(its.validBefore + 1n);
  expect(await instant.evidenceOf(its, since)).toEqual({ kind: "open" });
  isBehind = false;
  expect(await instant.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });
});
