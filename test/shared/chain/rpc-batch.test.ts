import { AsyncLocalStorage } from "node:async_hooks";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { isSpentAt } from "../../../shared/chain/evidence.ts";
import { createNodeClient, createReads } from "../../../shared/chain/rpc.ts";
import { createBatchedRpc } from "../../../shared/chain/rpc-batch.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { type Span, setTracer } from "../../../shared/platform/traces/tracer.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { ASSET, payer, useTokenChain } from "../../fixtures/token-chain.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { answerWith, type Rpc } from "../../support/node-before.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);
const ends = useEnds();

const alone = () => false;
const WORD = 64;
const wordOf = (value: bigint) => `0x${value.toString(16).padStart(WORD, "0")}`;
/** A false answer: every authorization is spent, and every payer owns one unit. */
const LIE = wordOf(1n);

/** Makes a spent authorization, with the chain's state of it. */
async function spent() {
  const its = await fixture.authorization();
  await fixture.pay(its);
  const { balance } = await chainOf({}).stateOf(its);
  return { its, truth: { isSpent: true, balance } };
}

type AnswerBatch = (batch: readonly Rpc[], res: ServerResponse) => unknown;

const answers =
  (toEntries: (batch: readonly Rpc[]) => unknown) => (batch: readonly Rpc[], res: ServerResponse) =>
    res.end(JSON.stringify(toEntries(batch)));
const lie = ({ id }: Pick<Rpc, "id">) => ({ jsonrpc: "2.0", id, result: LIE });
const error = (id: unknown, code: number, message: string) => ({
  jsonrpc: "2.0",
  id,
  error: { code, message },
});

const BATCHES_LEFT_OPEN: [string, AnswerBatch][] = [
  ["a single error object, as Erigon", answers(() => error(null, -32_000, "batch limit 1 exceeded"))],
  [
    "an error for its first entry alone, as geth",
    answers(([first]) => [error(first?.id, -32_600, "batch too large")]),
  ],
  [
    "an error without an id, as some providers",
    answers(() => [error(null, -32_600, "Too many methods in the batch")]),
  ],
  [
    "an error for each entry",
    answers((batch) => batch.map(({ id }) => error(id, -32_003, "response too large"))),
  ],
  [
    "a limit on batches that reads like one of the rate",
    answers(() => error(null, -32_005, "batch requests limit: 3")),
  ],
  ["an error that is no text", answers(() => ({ error: { code: 1, message: { toString: 1 } } }))],
  ["status 405", (_, res) => res.writeHead(405).end("<h1>Not Allowed</h1>")],
  ["status 413 with a list", (batch, res) => res.writeHead(413).end(JSON.stringify(batch.map(lie)))],
  ["status 500", (_, res) => res.writeHead(500).end()],
  ["what is no JSON", (_, res) => res.end('[{"jsonrpc"')],
  ["null", answers(() => null)],
  ["a list of nothing", answers(() => [null, 1, "x", []])],
  ["one object with a result", answers(([first]) => lie({ id: first?.id ?? 0 }))],
  ["other ids", answers((batch) => batch.map(({ id }) => lie({ id: id + 1000 })))],
  ["ids as text", answers((batch) => batch.map(({ id }) => ({ ...lie({ id }), id: String(id) })))],
  ["each id twice", answers((batch) => [...batch, ...batch].map(lie))],
  ["one id for all", answers((batch) => batch.map(() => lie({ id: batch[0]?.id ?? 0 })))],
  ["too much", answers((batch) => batch.map((rpc) => ({ ...lie(rpc), more: "x".repeat(5000) })))],
  ["nothing", () => {}],
  ["a reset", (_, res) => res.socket?.resetAndDestroy()],
];

test.each(sample(BATCHES_LEFT_OPEN, 4))(
  "a payment is judged by single requests if its node answers a batch with %s, and no batch is sent then",
  async (_how, answerBatch) => {
    const { its, truth } = await spent();
    const { url, batches } = await nodeThat(alone, (batch, res) => answerBatch(batch, res) !== null);
    const chain = chainOf({ rpcUrl: url, timeoutMs: 1000 });
    expect(await chain.stateOf(its)).toMatchObject(truth);
    expect(await chain.stateOf(its)).toMatchObject(truth);
    expect(batches.map(({ length }) => length)).toEqual([2]);
  },
);

test("the reads of payments that share a head form one batch, whose answers are matched by id and not by position", async () => {
  const [{ its, truth }, unspent] = [await spent(), await fixture.authorization()];
  const { url, asked, batches } = await nodeThat(alone, (batch, res) => {
    const all = batch.map(async (rpc) => (await fetch(fixture.rpcUrl, postOf(rpc))).json());
    void Promise.all(all).then((answered) => res.end(JSON.stringify(answered.reverse())));
    return true;
  });
  const chain = chainOf({ rpcUrl: url });
  const states = await Promise.all([its, unspent, its].map(chain.stateOf));
  expect(states).toMatchObject([truth, { ...truth, isSpent: false }, truth]);
  const methods = (all: readonly Rpc[]) => all.map(({ method }) => method);
  // The first payment has its own head, because the others arrived after the read of that head began.
  expect(batches.map(methods)).toEqual([Array(2).fill("eth_call"), Array(4).fill("eth_call")]);
  expect(methods(asked)).toEqual(["eth_chainId", "eth_getBlockByNumber", "eth_getBlockByNumber"]);
});

test("receipts that are requested together form one batch, and each proves its own payment", async () => {
  const both = [await fixture.authorization(), await fixture.authorization()] as const;
  const [first, second] = [await fixture.pay(both[0]), await fixture.pay(both[1])];
  const { url, batches } = await nodeThat(alone);
  const chain = chainOf({ rpcUrl: url });
  const proofs = [
    chain.proofOf(first, both[0]),
    chain.proofOf(second, both[1]),
    chain.proofOf(first, both[1]),
  ];
  const [one, two, other] = await Promise.all(proofs);
  expect([one?.kind, two?.kind, other?.kind]).toEqual(["paid", "paid", "none"]);
  expect(batches.map(({ length }) => length)).toEqual([3]);
});

test("a request that a batch leaves unanswered is sent alone, and an answered one is not sent again", async () => {
  const { its } = await spent();
  const { url, asked } = await nodeThat(alone, (batch, res) => {
    res.end(JSON.stringify(batch.slice(1).map(lie)));
    return true;
  });
  expect(await chainOf({ rpcUrl: url }).stateOf(its)).toMatchObject({ isSpent: true, balance: 1n });
  expect(asked.filter(({ method }) => method === "eth_call")).toHaveLength(1);
});

test("the reads of a batch may name different blocks: each answer is of its own, and one unknown block fails its own read", async () => {
  const { url, batches } = await nodeThat(alone);
  const its = await fixture.authorization();
  const before = await fixture.block();
  await fixture.pay(its);
  const after = await fixture.block();
  const reads = batchedReads(url);
  const balanceAt = (blockHash: `0x${string}`) =>
    reads
      .call({ to: ASSET, data: balanceOf(payer.address) }, { blockHash })
      .catch((thrown: Error) => thrown.message);
  const [first, unknown, second] = await Promise.all(
    [before.hash, `0x${"ab".repeat(32)}` as const, after.hash].map(balanceAt),
  );
  expect(batches).toHaveLength(1);
  expect(unknown).toMatch(/^eth_call: error /);
  expect(BigInt(first as string) - BigInt(second as string)).toBe(its.value);
});

onlyInLongRun(() => {
  test("a node that accepts at most three requests at once gets batches of two, and larger batches after ten minutes", async () => {
    const its = await fixture.authorization();
    const head = await fixture.block();
    const refuse = answers(() => error(null, 31, "Batch of more than 3 requests is not allowed"));
    const { url, batches } = await nodeThat(
      alone,
      (batch, res) => batch.length > 3 && refuse(batch, res) !== null,
    );
    let now = 1_800_000_000_000;
    const reads = batchedReads(url, () => now);
    const sizes = async () => {
      batches.length = 0;
      const answered = await Promise.all(Array.from({ length: 8 }, () => isSpentAt(reads, its, head)));
      expect(answered).toEqual(Array(8).fill(false));
      return batches.map(({ length }) => length);
    };
    expect([await sizes(), await sizes(), await sizes()]).toEqual([[8], [4, 4], [2, 2, 2, 2]]);
    now += 599_999;
    expect(await sizes()).toEqual([2, 2, 2, 2]);
    now += 1;
    expect(await sizes()).toEqual([8]);
  });
});

test("a node that refuses a larger batch after a smaller one gets none again", async () => {
  const its = await fixture.authorization();
  const head = await fixture.block();
  const held: ServerResponse[] = [];
  const { url, batches } = await nodeThat(alone, (batch, res) => {
    if (batch.length === 2) res.writeHead(405).end();
    else held.push(res);
    return true;
  });
  const reads = batchedReads(url);
  const ask = (count: number) =>
    Promise.all(Array.from({ length: count }, () => isSpentAt(reads, its, head)));
  const larger = ask(8);
  await eventually("the larger batch is there", () => held.length === 1);
  await ask(2);
  held[0]?.writeHead(405).end();
  await larger;
  await ask(8);
  expect(batches.map(({ length }) => length)).toEqual([8, 2]);
});

test("a provider whose rate limit is smaller than a batch gets smaller ones, which it answers", async () => {
  const its = await fixture.authorization();
  const head = await fixture.block();
  const { url, batches } = await nodeThat(
    alone,
    (batch, res) => batch.length > 3 && res.writeHead(429).end() !== null,
  );
  const reads = batchedReads(url);
  const answered = async () => {
    const queries = Array.from({ length: 8 }, () => isSpentAt(reads, its, head));
    const outcomes = await Promise.allSettled(queries);
    return outcomes.filter(({ status }) => status === "fulfilled").length;
  };
  expect([await answered(), await answered(), await answered()]).toEqual([0, 0, 8]);
  expect(batches.map(({ length }) => length)).toEqual([8, 4, 4, 2, 2, 2, 2]);
});

const LIMITS: [string, AnswerBatch][] = [
  ["status", (_, res) => res.writeHead(429).end("{}")],
  ["an error", answers(() => error(null, -32_005, "request rate limited"))],
  ["an error in a list", answers(() => [error(null, 429, "compute units per second")])],
  ["an error for each", answers((batch) => batch.map(({ id }) => error(id, -32_005, "daily limit")))],
];

test.each(sample(LIMITS))(
  "a provider that limits the rate of a batch, by %s, is not asked alone for it",
  async (_, answerBatch) => {
    const its = await fixture.authorization();
    const { url, asked } = await nodeThat(alone, (batch, res) => answerBatch(batch, res) !== null);
    await expect(chainOf({ rpcUrl: url }).stateOf(its)).rejects.toMatchObject({
      code: "payment.unavailable",
    });
    expect(asked.map(({ method }) => method)).not.toContain("eth_call");
  },
);

test("a call of a payer's own contract is sent alone, because other requests would wait for it", async () => {
  const its = await fixture.authorization();
  const { url, batches } = await nodeThat(alone);
  const question = { transfer: its, digest: Buffer.alloc(32), signature: "0x12" as const };
  const chain = chainOf({ rpcUrl: url });
  await Promise.all(Array.from({ length: 3 }, () => chain.checkSignature(question)));
  expect(batches).toEqual([]);
});

test("a read that is part of a trace has one span, alone or in a batch, and the span fails if the batch does not answer the read", async () => {
  const { url } = await nodeThat(
    alone,
    (batch, res) => batch.length > 2 && res.writeHead(429).end() !== null,
  );
  const [its, head] = [await fixture.authorization(), await fixture.block()];
  const spans: string[] = [];
  const isRoot = new AsyncLocalStorage<Span>();
  setTracer({
    start: ({ name }) => ({
      traceparent: "",
      set: (attributes) => spans.push(`${name} ${attributes["http.response.status_code"]}`),
      fail: (code) => spans.push(`${name} failed ${code}`),
      end: () => spans.push(`${name} ended`),
    }),
    current: () => isRoot.getStore(),
    run: (span, work) => isRoot.run(span, work),
  });
  ends.defer(() => setTracer(undefined));
  const reads = batchedReads(url);
  const told = async (count: number) => {
    spans.length = 0;
    const root = { traceparent: "", set() {}, fail() {}, end() {} };
    const ask = () => isSpentAt(reads, its, head);
    await isRoot.run(root, () => Promise.allSettled(Array.from({ length: count }, ask)));
    return spans;
  };
  expect(await told(1)).toEqual(["eth_call 200", "eth_call ended"]);
  expect(await told(2)).toEqual(Array(2).fill("eth_call ended"));
  expect(await told(3)).toEqual(Array(3).fill(["eth_call failed 429", "eth_call ended"]).flat());
});

test("a caller never shares a head whose read began before its request, so it sees all spends before its request", async () => {
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let heads = 0;
  const { url } = await nodeThat((rpc, res) => {
    if (rpc.method !== "eth_getBlockByNumber" || ++heads > 1) return false;
    void fixture.block().then(async ({ number, hash, timestamp }) => {
      const block = { number: hex(number), hash, timestamp: hex(timestamp) };
      await held;
      answerWith(block, rpc, res);
    });
    return true;
  });
  const chain = chainOf({ rpcUrl: url });
  const [other, its] = [await fixture.authorization(), await fixture.authorization()];
  const first = chain.stateOf(other);
  await eventually("its head is being read", () => heads === 1);
  const { balance } = await chainOf({}).stateOf(its);
  await fixture.pay(its);
  const second = chain.stateOf(its);
  goOn();
  expect(await first).toMatchObject({ isSpent: false, balance });
  expect(await second).toMatchObject({ isSpent: true, balance: balance - its.value });
});

function batchedReads(url: string, clock = Date.now) {
  const node = createNodeClient({ url: new Secret(url), timeoutMs: 5000 });
  return createReads(createBatchedRpc(node, { answerBytesEach: 4096, clock }));
}

const hex = (value: bigint) => `0x${value.toString(16)}`;
const balanceOf = (address: string) => `0x70a08231${address.slice(2).padStart(WORD, "0")}` as const;

function postOf(rpc: object): RequestInit {
  return { method: "POST", body: JSON.stringify(rpc), headers: { "content-type": "application/json" } };
}
