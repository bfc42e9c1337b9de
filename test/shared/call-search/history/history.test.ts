import { beforeEach, expect, test } from "vitest";
import type { EndedCall } from "../../../../shared/call-search/history/block.ts";
import {
  createCallHistory,
  createForgetInHistory,
  GIVEN_UP_MS,
  type HistoryLimits,
} from "../../../../shared/call-search/history/keep.ts";
import { createReadHistory, type EndedFilter } from "../../../../shared/call-search/history/read.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { connectForWork } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { whenReady } from "../../../../shared/redis/ready.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const ends = useEnds();
const redis = useRedis();
const proxy = useRedisProxy(redis);

let now = Date.now();
beforeEach(async () => {
  now = Date.now();
  await redis.client.flushdb();
});

const LIMITS: HistoryLimits = { keptMs: 3_600_000, calls: 10_000, bytes: 1_000_000 };

function aHistory(limits: Partial<HistoryLimits> = {}, partition = redis.partition) {
  const log = recordingLog();
  const history = createCallHistory({ partition, limits: { ...LIMITS, ...limits }, clock: () => now, log });
  ends.defer(history.stop);
  return { ...history, said: log };
}

async function read(filter: EndedFilter = {}): Promise<EndedCall[]> {
  const calls: EndedCall[] = [];
  for await (const call of createReadHistory(redis.partition)(filter)) calls.push(call);
  return calls;
}

const webhook = (path: string, deliveryId?: string) => {
  const call = aCall();
  const given = { "X-WEBHOOK-PATH": path, ...(deliveryId && { "X-WEBHOOK-DELIVERY-ID": deliveryId }) };
  return { ...call, metadata: { ...call.metadata, ...given } };
};

const sale = (payer: string, transaction: string) =>
  aCall({
    origin: "x402",
    job_id: 2,
    metadata: { "X-X402-PAYER": payer, "X-X402-TRANSACTION": transaction },
  });

test("an injected call is found by its id, delivery id, endpoint, payer, transaction and job", async () => {
  const history = aHistory();
  const delivered = webhook("/a", 'id "of" \n a delivery');
  const bought = sale("0xpayer", "0xtransaction");
  history.add(delivered, { attempts: 3, ms: 17 });
  history.add(bought, { attempts: 1 });
  history.add(webhook("/b"), { attempts: 1 });
  await history.flush();

  expect(await read({ id: delivered.id })).toEqual([
    {
      ...{ id: delivered.id, queue: "webhook/7/1", acceptedAt: delivered.accepted_at, endedAt: now },
      ...{ attempts: 3, ms: 17, endpoint: "/a", deliveryId: 'id "of" \n a delivery' },
      ...{ payer: undefined, transaction: undefined, event: undefined, error: undefined },
    },
  ]);
  const ofSale = [expect.objectContaining({ id: bought.id, payer: "0xpayer", transaction: "0xtransaction" })];
  expect(await read({ deliveryId: 'id "of" \n a delivery' })).toMatchObject([{ id: delivered.id }]);
  expect(await read({ endpoint: "/a" })).toMatchObject([{ id: delivered.id }]);
  expect(await read({ payer: "0xpayer" })).toEqual(ofSale);
  expect(await read({ transaction: "0xtransaction" })).toEqual(ofSale);
  expect(await read({ origin: "x402" })).toEqual(ofSale);
  expect(await read({ job: "7/2" })).toEqual(ofSale);
  expect(await read({ deliveryId: "id" })).toEqual([]);
  expect(await read()).toHaveLength(3);
});

test("a call is found by its event type, by the code of its last failed attempt, and by any part of its stored data, ignoring case", async () => {
  const history = aHistory();
  const error = `runner.refused: 422 "EURO" is no currency${"!".repeat(500)}`;
  const called = webhook("/hooks/Shop", "evt_1");
  const paid = { ...called, metadata: { ...called.metadata, "X-WEBHOOK-EVENT": "invoice.paid" } };
  const other = webhook("/b");
  const created = {
    ...other,
    metadata: { ...other.metadata, "X-WEBHOOK-EVENT-UTF8": "UTF-8''%C3%BC%20new" },
  };
  history.add(paid, { attempts: 2, error });
  history.add(created, { attempts: 1 });
  await history.flush();

  const [found] = await read({ event: "invoice.paid" });
  expect(found).toMatchObject({ id: paid.id, event: "invoice.paid", error: error.slice(0, 200) });
  for (const filter of [
    { code: "runner.refused" },
    { text: '"euro" IS' },
    { text: "hooks/shop" },
    { text: "EVT_" },
  ])
    expect(await read(filter)).toMatchObject([{ id: paid.id }]);
  expect(await read({ event: "ü new" })).toMatchObject([{ id: created.id, error: undefined }]);
  expect(await read({ text: "Ü NEW" })).toMatchObject([{ id: created.id }]);
  for (const filter of [{ code: "runner.server_error" }, { event: "invoice" }, { text: "evt_2" }])
    expect(await read(filter)).toEqual([]);
});

test("lines of an earlier release are parsed, and have neither event type nor error", async () => {
  const line = JSON.stringify([`c_${"a".repeat(32)}`, -12, 0, 1, "webhook/7/1", "/a", "evt_1"]);
  await redis.client.set(keys.historyBlock("old"), `{"at":${now}}\n${line}\n`);
  await redis.client.zadd(keys.history, now, "1 100 old");
  expect(await read({ text: "evt_1" })).toMatchObject([
    { endpoint: "/a", deliveryId: "evt_1", event: undefined, error: undefined },
  ]);
});

test("calls of several producers are listed in the order of their end, newest first, and within a range of time", async () => {
  const [one, other] = [aHistory(), aHistory()];
  const begin = now;
  const ids: string[] = [];
  for (let n = 0; n < 300; n++) {
    const call = webhook("/a");
    ids.unshift(call.id);
    (n % 3 === 0 ? one : other).add(call, { attempts: 1 });
    now += 10;
  }
  await Promise.all([one.flush(), other.flush()]);
  expect((await read()).map(({ id }) => id)).toEqual(ids);
  const some = await read({ since: begin + 500, until: begin + 1000 });
  expect(some.map(({ id }) => id)).toEqual(ids.slice(199, 250));
});

test("many simultaneous calls, short and long ones, are all stored, in blocks of limited size", async () => {
  const history = aHistory();
  const ids: string[] = [];
  for (let n = 0; n < 600; n++) {
    const call = webhook(n < 300 ? "/a" : `/${"é".repeat(500)}`);
    ids.push(call.id);
    history.add(call, { attempts: 1 });
  }
  await history.flush();
  expect((await read()).map(({ id }) => id).sort()).toEqual(ids.sort());
  const members = await redis.client.zrange(keys.history, "0", "-1");
  expect(members.length).toBeLessThan(20);
  for (const [calls, , id] of members.map((member) => member.split(" "))) {
    expect(Number(calls)).toBeLessThanOrEqual(256);
    expect(await redis.client.strlen(keys.historyBlock(String(id)))).toBeLessThanOrEqual(64 * 1024);
  }
});

test("the oldest calls are deleted first: above the limits of number and bytes, and when they expire", async () => {
  const few = aHistory({ calls: 5 });
  for (let n = 0; n < 8; n++) {
    few.add(webhook(`/${n}`), { attempts: 1 });
    await few.flush();
    now += 1;
  }
  expect((await read()).map(({ endpoint }) => endpoint)).toEqual(["/7", "/6", "/5", "/4", "/3"]);
  expect(await redis.client.hget(keys.historySize, "calls")).toBe("5");

  const small = aHistory({ bytes: 1000 });
  for (let n = 0; n < 8; n++) {
    small.add(webhook(`/${n}`), { attempts: 1 });
    await small.flush();
    now += 1;
  }
  const bytes = Number(await redis.client.hget(keys.historySize, "bytes"));
  expect(bytes).toBeGreaterThan(300);
  expect(bytes).toBeLessThanOrEqual(1000);
  expect((await read())[0]?.endpoint).toBe("/7");
  expect(await redis.client.keys("{postern}:history:*")).toHaveLength((await read()).length + 1);

  now += 3_600_000;
  const old = await redis.client.zrange(keys.history, "0", "-1", "WITHSCORES");
  for (const [i, member] of old.entries())
    if (i % 2 === 0) await redis.client.zincrby(keys.history, -3_700_000, member);
  small.add(webhook("/new"), { attempts: 1 });
  await small.flush();
  expect((await read()).map(({ endpoint }) => endpoint)).toEqual(["/new"]);
});

test("a block whose reply was lost is written again, and counted once", async () => {
  const connection = connectForWork({ url: new Secret(proxy.url) }, silentLogger);
  ends.defer(() => connection.disconnect());
  await whenReady(connection, 5000);
  const history = aHistory({}, partitionOf(connection));
  const call = webhook("/a");
  history.add(call, { attempts: 1 });
  let lost = 0;
  proxy.onCommand = (words) => {
    if (words[0] !== "EVALSHA" && words[0] !== "EVAL") return undefined;
    lost += 1;
    return lost <= 2 ? { kind: "lose-reply" } : undefined;
  };
  await history.flush();
  await eventually("it is written", async () => (await read()).length > 0);
  expect(lost).toBeGreaterThan(1);
  expect(await redis.client.hgetall(keys.historySize)).toMatchObject({ calls: "1" });
});

test("a forgotten call is removed from all blocks, and a producer does not write it", async () => {
  const history = aHistory();
  const forget = createForgetInHistory(redis.partition);
  const [before, after, other] = [webhook("/a", "first"), webhook("/a", "second"), webhook("/a", "third")];
  history.add(before, { attempts: 1 });
  history.add(other, { attempts: 1 });
  await history.flush();
  history.add(after, { attempts: 1 });
  history.add(aCall(), { attempts: 1 });
  await forget.forget(before.id);
  await forget.forget(after.id);
  await history.flush();
  const found = await read();
  expect(found.map(({ id }) => id)).toContain(other.id);
  expect(found).toHaveLength(2);
  expect([await forget.remove(other.id), await forget.remove(other.id)]).toEqual([true, false]);
  for (const key of await redis.client.keys("{postern}:history:*"))
    if ((await redis.client.type(key)) === "string")
      expect(await redis.client.get(key)).not.toMatch(/first|second/);
  expect(await redis.client.pttl(keys.historyForgotten)).toBeGreaterThan(GIVEN_UP_MS);
});

test("all lines of a call that a producer has injected twice are removed, written or waiting", async () => {
  const history = aHistory();
  const forget = createForgetInHistory(redis.partition);
  const twice = (word: string) => {
    const call = webhook(`/${word}`, `${word}-delivery`);
    const known = { ...call, metadata: { ...call.metadata, "X-WEBHOOK-EVENT": `${word}-event` } };
    for (const _ of [1, 2]) history.add(known, { attempts: 2, error: `runner.refused: ${word}-error` });
    return known.id;
  };
  const written = twice("written");
  history.add(webhook("/other"), { attempts: 1 });
  await history.flush();
  await forget.forget(written);
  const waiting = twice("waiting");
  history.add(webhook("/other"), { attempts: 1 });
  await forget.forget(waiting);
  await history.flush();
  expect((await read()).map(({ endpoint }) => endpoint)).toEqual(["/other", "/other"]);
  for (const key of await redis.client.keys("{postern}:history:*"))
    if ((await redis.client.type(key)) === "string")
      expect(await redis.client.get(key)).not.toMatch(/written|waiting/);
});

test("while history is evicted no block is written, and a refused write loses no call and is logged once", async () => {
  const history = aHistory();
  await redis.client.set(keys.historyOff, "a gateway");
  history.add(webhook("/a"), { attempts: 1 });
  await history.flush();
  expect(await read()).toEqual([]);
  await redis.client.del(keys.historyOff);

  await redis.client.config("SET", "maxmemory", "1");
  try {
    history.add(webhook("/b"), { attempts: 1 });
    await history.flush();
    history.add(webhook("/c"), { attempts: 1 });
    await history.flush();
  } finally {
    await redis.client.config("SET", "maxmemory", "0");
  }
  expect(history.said.events.map(({ event }) => event)).toEqual(["history.write_failed"]);
  await history.flush();
  expect((await read()).map(({ endpoint }) => endpoint).sort()).toEqual(["/b", "/c"]);

  await redis.client.config("SET", "maxmemory", "1");
  history.add(webhook("/late"), { attempts: 1 });
  await history.flush();
  now += GIVEN_UP_MS + 1;
  await redis.client.config("SET", "maxmemory", "0");
  await history.flush();
  expect(await read({ endpoint: "/late" })).toEqual([]);
});
