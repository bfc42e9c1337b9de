import { beforeEach, expect, test } from "vitest";
import { networksOf } from "../../../shared/http/ip/address.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { dropOf, makePayment, UNBOUNDED } from "../../support/made-payment.ts";

const redis = useRedis();
let journal: PaymentJournal;
const TOKEN = { network: "eip155:8453", asset: `0x${"5".repeat(40)}` };
const MIB = 1024 * 1024;

beforeEach(async () => {
  journal = new PaymentJournal(redis.partition);
  await redis.client.flushdb();
});

type Claim = { client?: string; bytesMax?: number; bodyBytes?: number; payer?: string };

const by = "a test";
async function claim(claimed: Claim = {}, payment = paymentOf(claimed)) {
  const { client = "192.0.2.1", bytesMax = UNBOUNDED.unsettledBytesMax } = claimed;
  const limits = { ...UNBOUNDED, clients: networksOf(client), unsettledBytesMax: bytesMax };
  const { kind } = await journal.claim(payment, { ...limits, by, dueInMs: 0 });
  return { kind, id: payment.call.id };
}

const paymentOf = ({ bodyBytes = 5, payer = `0x${"1".repeat(40)}` }: Claim) =>
  makePayment({ ...TOKEN, payer, body: Buffer.alloc(bodyBytes, "x") });

async function found(id: string): Promise<Payment> {
  const payment = await journal.find(id);
  if (payment === undefined) throw new Error(`${id} is not there`);
  return payment;
}

const usageBy = async (client: string) => Number(await redis.client.hget(keys.paymentsUsageBy, client));
const all = () => redis.client.hgetall(keys.paymentsUsageBy);

/** Claims payments until one is refused. Resolves with the number of accepted claims and the reason of the refusal. */
async function fill(claimed: Claim): Promise<[taken: number, kind: string]> {
  for (let taken = 0; ; taken++) {
    const { kind } = await claim(claimed);
    if (kind !== "new") return [taken, kind];
  }
}

test("one client gets an eighth of what unsettled payments may use, in bytes and in number, and another client can still pay", async () => {
  const bytesMax = 8 * MIB;
  const [large, kind] = await fill({ bytesMax, bodyBytes: 100_000 });
  expect([large, kind]).toEqual([6, "client_full"]);
  const [more] = await fill({ bytesMax });
  expect(more).toBeGreaterThan(0);
  expect(await usageBy("192.0.2.1")).toBeLessThanOrEqual(bytesMax / 8);
  expect(await usageBy("192.0.2.1")).toBeGreaterThan(bytesMax / 8 - 20_000);
  const [small] = await fill({ bytesMax, client: "192.0.2.2" });
  expect(small, "each counts 16 KiB, and its fields").toBeLessThan(64);
  expect((await claim({ bytesMax, client: "192.0.2.3", bodyBytes: 100_000 })).kind).toBe("new");
});

onlyInLongRun(() => {
  test("after a hundred clients have used their whole shares, a new client can still pay", async () => {
    const bytesMax = 64 * MIB;
    for (let each = 1; each <= 100; each++) {
      await fill({ bytesMax, client: `192.0.2.${each}`, bodyBytes: MIB / 16 });
      await fill({ bytesMax, client: `192.0.2.${each}` });
    }
    expect(await usageBy("*")).toBeGreaterThan(0.9 * bytesMax);
    expect((await claim({ bytesMax, client: "198.51.100.1" })).kind).toBe("new");
  });
});

test("all IPv6 networks of one site together get the share of one client", async () => {
  const bytesMax = MIB;
  const [alone] = await fill({ bytesMax });
  await redis.client.flushdb();
  let taken = 0;
  for (let each = 1; each <= 8; each++)
    taken += (await fill({ bytesMax, client: `2001:db8:1:${each}::/64` }))[0];
  expect(taken).toBe(alone);
  expect(await usageBy("2001:db8:1::/48")).toBeLessThanOrEqual(bytesMax / 8);
  expect(await claim({ bytesMax, client: "2001:db8:1:9::/64" })).toMatchObject({ kind: "client_full" });
  expect(await claim({ bytesMax, client: "2001:db8:2:9::/64" })).toMatchObject({ kind: "new" });
});

test("a payment larger than an eighth of the limit is refused as too large, and a new client is refused as full if others have used everything", async () => {
  expect((await claim({ bytesMax: 8 * MIB, bodyBytes: MIB })).kind).toBe("too_large");
  const bytesMax = 8 * 21_000;
  const clients = Array.from({ length: 60 }, (_, i) => `192.0.2.${i}`);
  const kinds: string[] = [];
  for (const client of clients) kinds.push((await claim({ bytesMax, client })).kind);
  expect(kinds.at(0)).toBe("new");
  expect(kinds.at(-1)).toBe("full");
});

test("a refused claim, a repeat and a lost reply leave nothing that counts as usage", async () => {
  const payment = paymentOf({});
  await claim({}, payment);
  const once = await all();
  expect((await claim({}, payment)).kind, "its own repeat after a lost reply").toBe("new");
  const limits = { ...UNBOUNDED, clients: ["198.51.100.1"], dueInMs: 0 };
  expect((await journal.claim(payment, { ...limits, by: "another" })).kind).toBe("known");
  expect((await claim({ bytesMax: 8 })).kind).toBe("too_large");
  expect((await claim({ bytesMax: 200_000 })).kind).toBe("client_full");
  const again = paymentOf({});
  const openMax = { ...limits, by: "another", openMax: 1 };
  expect((await journal.claim(again, openMax)).kind).toBe("too_many_open");
  expect(await all()).toEqual(once);
  expect(await redis.client.hlen(keys.paymentsUsage)).toBe(1);
});

const settlement = {
  transaction: `0x${"ab".repeat(32)}`,
  network: TOKEN.network,
  payer: `0x${"1".repeat(40)}`,
  by: "facilitator",
} as const;
const now = () => Date.now();

/** Every possible change of a payment. Most changes have no effect in most states. */
const STEPS: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
  settle: async (id) =>
    journal.enqueueSettled(await found(id), { settlement, proven: false }, { dueInMs: 0 }),
  "settle by an operator": async (id) =>
    journal.enqueueSettled(await found(id), { settlement, proven: false }, { dueInMs: 0, from: ["REVIEW"] }),
  void: async (id) => journal.markVoid(await found(id), { reason: "" }, { now: Date.now() }),
  "void by an operator": async (id) =>
    journal.markVoid(await found(id), { reason: "" }, { now: now(), from: ["REVIEW"] }),
  review: (id) => journal.markForReview(id, ""),
  drop: (id) => journal.drop(id, { by, reason: "" }, dropOf(id)),
  end: async (id) => {
    const payment = await found(id);
    if (payment.state === "QUEUED" || payment.state === "DISCARDED") await journal.markEnded(payment);
  },
  "forget before its record is gone": (id) => journal.forget(id),
};

test("a claim that is repeated after its body was dropped is not new, so no settle request follows", async () => {
  const payment = paymentOf({});
  const { id } = await claim({}, payment);
  await journal.drop(id, { by, reason: "" }, dropOf(id));
  expect((await claim({}, payment)).kind).toBe("known");
  expect(await journal.markDispatching(id, Date.now())).toBe(false);
});

test("after any changes in any order, exactly the unsettled payments with a body count as usage", async () => {
  const ids: string[] = [];
  const names = Object.keys(STEPS);
  let seed = 1;
  const roll = (sides: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (seed >>> 8) % sides;
  };
  for (let step = 0; step < 400; step++) {
    if (ids.length < 5 || roll(4) === 0) {
      const { id } = await claim({ client: `192.0.2.${roll(3)}`, bodyBytes: roll(2000) });
      ids.push(id);
    } else await STEPS[names[roll(names.length)] ?? ""]?.(ids[roll(ids.length)] ?? "");
  }
  const payments = await Promise.all(ids.map(found));
  const counted = payments.filter(
    ({ state, dropped }) => (state === "SETTLING" || state === "REVIEW") && dropped === undefined,
  );
  expect(counted.every(({ call }) => call !== undefined)).toBe(true);
  const usage = await redis.client.hgetall(keys.paymentsUsage);
  expect(Object.keys(usage).sort()).toEqual(counted.map(({ id }) => id).sort());
  const sums = new Map<string, number>();
  for (const noted of Object.values(usage)) {
    const [bytes, ...clients] = JSON.parse(noted) as [number, ...string[]];
    for (const each of ["*", ...clients]) sums.set(each, (sums.get(each) ?? 0) + bytes);
  }
  expect(await all()).toEqual(Object.fromEntries([...sums].map(([each, sum]) => [each, String(sum)])));
  const states = new Set(payments.map(({ state }) => state));
  expect([...states].sort()).toEqual(["DISCARDED", "QUEUED", "REVIEW", "SETTLING", "VOID"]);

  for (const { id } of counted) await redis.client.del(keys.record(id));
  for (const { id } of counted) await journal.forget(id);
  expect(await redis.client.exists(keys.paymentsUsage, keys.paymentsUsageBy)).toBe(0);
});
