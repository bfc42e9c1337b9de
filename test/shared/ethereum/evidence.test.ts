import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { Secret } from "../../../shared/crypto/secret.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { type Chain, createChain } from "../../../shared/ethereum/chain.ts";
import type { TokenAuthorization } from "../../../shared/ethereum/logs.ts";
import { createEthCall, toQuantity } from "../../../shared/ethereum/rpc.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { ASSET, payer, SELLER, useTokenChain } from "../../fixtures/token-chain.ts";
import { answerWith, forward, type Rpc, startNodeBefore } from "../../support/node-before.ts";
import { recordingLog } from "../../support/recording-log.ts";

const fixture = useTokenChain();
const ends = useEnds();
let chain: Chain;
let since: bigint;
beforeEach(async () => {
  chain = chainOf({ confirmations: 1 });
  since = (await fixture.block()).number;
});

type Given = { confirmations?: number; rpcUrl?: string; chainId?: number; timeoutMs?: number };

/** Its clock is a century ahead: no evidence may depend on it. */
function chainOf(
  { confirmations = 1, rpcUrl = fixture.rpcUrl, chainId = fixture.chainId, timeoutMs = 5000 }: Given,
  log = recordingLog(),
): Chain {
  const clock = () => Date.now() + 3_155_760_000_000;
  const its = createChain({ rpcUrl: new Secret(rpcUrl), chainId, confirmations, timeoutMs, clock, log });
  ends.defer(() => its.close());
  return its;
}

/** No node lags so long behind the end of an authorization. */
const LONG_AFTER = 301n;

/** Makes what has happened final. */
const finalize = () => fixture.mine(2);

const lower = (text: string) => text.toLowerCase();

test("a payment is paid once it is as deep as configured; before, it is only seen", async () => {
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

test("one that expired first and is cancelled now never paid either", async () => {
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

test("what was spent before the claim is no payment, and a human's to look at", async () => {
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

test("a transaction that does not pay this authorization is no payment for it", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization()];
  const transaction = await fixture.pay(one);
  expect(await chain.blockPaidIn(transaction, two)).toBeUndefined();
  expect(await chain.blockPaidIn(`0x${"12".repeat(32)}`, one)).toBeUndefined();
});

test("every transfer to the seller is told, with the authorization that made it", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization({ value: 7n })];
  const fromBlock = since + 1n;
  const batch = await fixture.batch([5n, one, two, 6n]);
  await fixture.mine(3);
  const three = await fixture.authorization({ value: 9n });
  const single = await fixture.pay(three);
  await fixture.pay(await fixture.authorization({ to: payer.address }));
  const toBlock = (await fixture.block()).number;

  const transfers = [];
  const range = { asset: ASSET, payTo: SELLER, fromBlock, toBlock } as const;
  for await (const transfer of chain.transfersTo(range)) transfers.push(transfer);

  const signed = ({ nonce }: TokenAuthorization) => ({ authorizer: lower(payer.address), nonce });
  const common = { from: lower(payer.address), to: lower(SELLER) };
  expect(transfers).toMatchObject([
    { transaction: batch, value: 5n, ...common },
    { transaction: batch, value: one.value, authorization: signed(one), ...common },
    { transaction: batch, value: 7n, authorization: signed(two), ...common },
    { transaction: batch, value: 6n, ...common },
    { transaction: single, value: 9n, authorization: signed(three), block: toBlock - 1n, ...common },
  ]);
  for (const i of [0, 3]) expect(transfers[i]).not.toHaveProperty("authorization");
});

/** A node in front of the fixture's, which answers some requests by itself. */
async function nodeThat(answer: Parameters<typeof startNodeBefore>[1]) {
  const node = await startNodeBefore(fixture.rpcUrl, answer);
  ends.defer(() => node.close());
  return node;
}

const SECRETS = /api-key-12345678|tok-87654321|pass-w0rd-123|127\.0\.0\.1/;

test.each([10n, 1n])("a provider that takes %s blocks at a time is asked for no more", async (limit) => {
  let refused = 0;
  const { url } = await nodeThat(({ id, method, params: [range] }, res) => {
    if (method !== "eth_getLogs" || !range) return false;
    if (BigInt(range.toBlock) - BigInt(range.fromBlock) < limit) return false;
    refused += 1;
    res.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32600, message: "range too large" } }));
    return true;
  });
  const its = await fixture.authorization();
  const others = [
    await fixture.authorization({ value: 1n }),
    await fixture.authorization({ value: 2n }),
  ] as const;
  await fixture.pay(others[0]);
  await fixture.mine(30);
  const transaction = await fixture.pay(its);
  await fixture.pay(others[1]);
  const limited = chainOf({ rpcUrl: url });
  expect(await limited.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });

  const values = [];
  const range = {
    asset: ASSET,
    payTo: SELLER,
    fromBlock: since + 1n,
    toBlock: (await fixture.block()).number,
  } as const;
  for await (const { value } of limited.transfersTo(range)) values.push(value);
  expect(values).toEqual([1n, 1000n, 2n]);
  const learning = refused;
  expect(await limited.evidenceOf(its, since)).toMatchObject({ kind: "paid", transaction });
  expect(refused - learning).toBeLessThanOrEqual(1);
});

const ILL_NODES: [string, Parameters<typeof nodeThat>[0]][] = [
  ["resets", (_, res) => void res.socket?.resetAndDestroy() === undefined],
  ["is silent", () => true],
  ["never ends its answer", (_, res) => res.writeHead(200).write('{"jsonrpc"')],
  ["answers 401", (_, res) => Boolean(res.writeHead(401).end("api-key-12345678 is not valid"))],
  ["answers 429", (_, res) => Boolean(res.writeHead(429).end("{}"))],
  ["answers a page", (_, res) => Boolean(res.end("<h1>no</h1>"))],
  ["answers null", (_, res) => Boolean(res.end("null"))],
  ["answers an empty object", (_, res) => Boolean(res.end("{}"))],
  ["redirects", (_, res) => Boolean(res.writeHead(307, { location: fixture.rpcUrl }).end())],
  [
    "repeats its URL in an error",
    ({ id }, res) => {
      const message = `http://127.0.0.1/v2/api-key-12345678: token tok-87654321 of api-key-12345678 at ${res.req.headers.host} is used up`;
      return Boolean(res.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32000, message } })));
    },
  ],
];

test.each(ILL_NODES)(
  "of a node that %s nothing is believed, and its URL is not told",
  async (_how, answer) => {
    const { url } = await nodeThat(answer);
    const log = recordingLog();
    const ill = chainOf({ rpcUrl: url, timeoutMs: 300 }, log);
    const its = await fixture.authorization();
    ill.start();

    const calls = [
      () => ill.evidenceOf(its, since),
      () => ill.freshHead(),
      () => createEthCall({ rpcUrl: new Secret(url), timeoutMs: 300 })({ to: ASSET, data: "0x" }),
      () => ill.blockPaidIn(`0x${"12".repeat(32)}`, its),
    ];
    const startedAt = performance.now();
    for (const call of calls) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toMatchObject({ code: "payment.unavailable" });
      expect(inspect(error, { depth: 9 }).replaceAll(/^ +at .*$/gm, "")).not.toMatch(SECRETS);
    }
    expect(performance.now() - startedAt).toBeLessThan(3000);
    await eventually("the loss is logged", () => log.events.length > 0);
    expect(log.events.map(({ event }) => event)).toEqual(["chain.lost"]);
    expect(log.text()).not.toMatch(SECRETS);
    expect(ill.head()).toBeUndefined();
  },
);

test("user and password of a node's URL are sent as basic authentication (RFC 7617)", async () => {
  let sent: string | undefined;
  const node = createServer((req, res) => {
    sent = req.headers.authorization;
    res.end('{"jsonrpc":"2.0","id":0,"result":"0x12"}');
  });
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  ends.defer(() => node.close());
  const { port } = node.address() as AddressInfo;
  const ethCall = createEthCall({
    rpcUrl: new Secret(`http://me:a%3Ab@127.0.0.1:${port}/`),
    timeoutMs: 5000,
  });
  expect(await ethCall({ to: ASSET, data: "0x" })).toBe("0x12");
  expect(sent).toBe(`Basic ${Buffer.from("me:a:b").toString("base64")}`);
});

test("a node of another chain is not asked for evidence: every payment would look unpaid there", async () => {
  const other = chainOf({ chainId: 8453 });
  const its = await fixture.authorization();
  await expect(other.evidenceOf(its, since)).rejects.toThrow("the node serves chain 84532, not 8453");
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

test("a payment whose log is not told is not void, though its cancellation is: of what ended, the final state is asked", async () => {
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

test("the head follows the chain once started, says when it was read, and recovers by itself", async () => {
  let away = true;
  const { url, asked } = await nodeThat((_, res) => away && Boolean(res.writeHead(503).end()));
  const log = recordingLog();
  const its = chainOf({ rpcUrl: url }, log);
  its.start();
  await eventually("the node is missed, twice", () => log.events.length > 0 && asked.length > 1);
  expect(its.head()).toBeUndefined();

  away = false;
  const { number, timestamp } = await fixture.block();
  await eventually("the node is back", () => its.head());
  expect(its.head()).toMatchObject({ number, timestamp });
  expect(its.head()?.at).toBeGreaterThan(Date.now() + 3_155_000_000_000);
  await fixture.mine(1);
  await eventually("the head has moved", () => its.head()?.number === number + 1n);
  expect((await its.freshHead()).number).toBe(number + 1n);
  await eventually("its return is logged", () => log.events.length > 1);
  expect(log.events.map(({ event }) => event)).toEqual(["chain.lost", "chain.returned"]);
});
