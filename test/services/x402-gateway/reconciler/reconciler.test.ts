import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import type { JobCall } from "../../../../shared/call/job-call.ts";
import type { Origin } from "../../../../shared/call/origin.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { queueOf } from "../../../../shared/queue/queue-name.ts";
import { LAYOUT } from "../../../../shared/redis/layout.ts";
import { useMadePayments } from "../../../fixtures/made-payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { PRICE, type TestX402, x402Table } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { claimPayment, queuePayment } from "../../../support/made-payment.ts";
import { type Rpc, startNodeBefore } from "../../../support/node-before.ts";
import { signAuthorization } from "../../../support/sign-payment.ts";

const HUNG = "eip155:8453";
const HUNG_ASSET = `0x${"5".repeat(40)}`;

const payments = useMadePayments();
const { redis, devnet, ends } = payments;

type SilentNode = { url: string; cut(): void };

/** Starts a node that accepts every connection and never answers, until `cut` closes the connections. */
async function silentNode(): Promise<SilentNode> {
  const sockets = new Set<Socket>();
  const its = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => its.listen(0, "127.0.0.1", resolve));
  const { port } = its.address() as AddressInfo;
  const cut = (): void => {
    its.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url: `http://127.0.0.1:${port}`, cut };
}

/** Starts a gateway with two tokens: the devnet's, and one on a chain whose node never answers. */
async function gatewayOfBoth(): Promise<TestX402 & { node: SilentNode }> {
  const node = await silentNode();
  const [token] = x402Table({ devnet })["accepted_tokens"] as [Record<string, unknown>];
  const hung = { ...token, network: HUNG, asset: HUNG_ASSET, rpc_url: node.url, symbol: "HUNG" };
  const x402 = await payments.gateway({ early: true, x402: { accepted_tokens: [hung, token] as never } });
  // The connections are cut first, because the gateway's close waits for its requests.
  ends.defer(node.cut);
  return { ...x402, node };
}

const hungPayments = (count: number) =>
  Promise.all(
    Array.from({ length: count }, () => claimPayment(payments.journal, { network: HUNG, asset: HUNG_ASSET })),
  );

/** Creates a payment that is proven on the chain and whose call the queue has lost. Adding it again needs only Redis. */
async function lost(made: Parameters<typeof queuePayment>[1]): Promise<string> {
  const id = await queuePayment(payments.journal, made, true);
  await payments.queues.remove(id);
  await payments.journal.reschedule(id, 0); // a gateway may have checked the payment while its call was queued
  return id;
}

const isWaiting = async (id: string) => (await payments.queues.find(id)) !== undefined;

/** Creates a payment on the devnet that no gateway has seen. */
async function paidOnDevnet(): Promise<string> {
  const { token, chainId, seller, network } = devnet;
  const payer = await newPayer(devnet);
  const signed = await signAuthorization({ payer, to: seller, value: PRICE, token, chainId });
  await devnet.chain.frontRun(signed);
  const { nonce, validBefore } = signed.authorization;
  return claimPayment(payments.journal, {
    ...{ network, asset: token, pay_to: seller, nonce, valid_before: validBefore },
    payer: payer.address.toLowerCase(),
  });
}

onlyInLongRun(() => {
  test("while one chain's node hangs, payments of other chains and payments that need only Redis are reconciled within seconds", async () => {
    await hungPayments(64);
    const onlyRedis = await lost({ network: HUNG, asset: HUNG_ASSET });
    const other = await paidOnDevnet();
    const { undisturbed } = await gatewayOfBoth();
    await eventually("the call that was lost waits", () => isWaiting(onlyRedis));
    await eventually("so does that of the other chain", () => isWaiting(other));

    const later = await undisturbed(() => lost({ network: HUNG, asset: HUNG_ASSET }));
    await eventually("so does one that is lost later", () => isWaiting(later));
  });
});

test("every payment whose chain's node hangs, and then closes the connection, stays due", async () => {
  const ids = await hungPayments(40);
  const { log, node } = await gatewayOfBoth();
  const areDue = async () =>
    expect((await redis.client.zrange(keys.paymentsDue, "0", "-1")).sort()).toEqual([...ids].sort());
  await eventually("they are looked at", async () => {
    const next = (await redis.client.zrange(keys.paymentsDue, "0", "-1", "WITHSCORES")).map(Number);
    return next.some((at) => at > Date.now());
  });
  await areDue();
  node.cut();
  await eventually("some have failed", () => log.text().includes("payment.reconcile_failed"));
  await areDue();
});

onlyInLongRun(() => {
  test("a gateway that stops waits for the payments that it is reconciling, and starts with no other", async () => {
    const { network, token: asset } = devnet;
    const ids = await Promise.all(
      Array.from({ length: 40 }, () => claimPayment(payments.journal, { network, asset })),
    );
    const hangs = ({ params }: Rpc) => JSON.stringify(params).includes("1".repeat(40));
    const node = await startNodeBefore(devnet.rpcUrl, hangs);
    const x402 = await payments.gateway({ token: { rpc_url: node.url } });
    ends.defer(() => node.close());
    await eventually("some are looked at", () => node.asked.some(hangs));
    let isClosed = false;
    const closing = x402.gateway.close().then(() => {
      isClosed = true;
    });
    await payments.journal.find(ids[0] as string);
    expect(isClosed).toBe(false);
    await node.close();
    await closing;
    const failed = x402.log.events.filter(({ event }) => event === "payment.reconcile_failed");
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(ids.length);
    expect(await redis.client.zcard(keys.paymentsDue)).toBe(ids.length);
  });

  test("after an outage there is no pause between the payments that are due", async () => {
    const { network, token: asset } = devnet;
    const ids = await Promise.all(
      Array.from({ length: 160 }, () => lost({ network, asset, payer: `0x${"3".repeat(40)}` })),
    );
    // Rounds of sixteen payments with a pause after each would take a hundred seconds.
    await payments.gateway({ roundMs: 10_000 });
    const areWaiting = async () => (await Promise.all(ids.map(isWaiting))).every(Boolean);
    await eventually("all calls wait", areWaiting, 50_000);
  });
});

test("a paid call that is in any queue of the registry is not added again, and a call that is in none is added", async () => {
  const { network, token: asset } = devnet;
  const id = await queuePayment(payments.journal, { network, asset });
  const { log } = await payments.gateway();
  const missing = () => log.events.filter(({ event }) => event === "payment.call_missing").length;
  const isWatched = async () => Number(await redis.client.zscore(keys.paymentsDue, id)) > Date.now();
  const watch = async () => {
    await redis.client.zadd(keys.paymentsDue, 0, id);
    await eventually("it is looked at", isWatched);
  };
  await eventually("it will be looked at later", isWatched);
  const call = (await payments.queues.find(id))?.data as JobCall;
  let queue = queueOf(call);
  for (const origin of ["webhook", "of-a-later-release"] as Origin[]) {
    // The call is in a queue at any time, because an earlier check may still run.
    await payments.queues.addStored({ ...call, origin }, call);
    await payments.queues.of(queue).remove(id);
    queue = queueOf({ ...call, origin });
    await watch();
    expect(missing()).toBe(0);
  }
  await payments.queues.remove(id);
  await redis.client.zadd(keys.paymentsDue, 0, id);
  await eventually(
    "it is missed, and added",
    async () => missing() === 1 && (await payments.queues.find(id)),
  );
});

const gone = (count: number) => Array.from({ length: count }, (_, i) => [i, `c_gone${i}`]).flat();

test("payments whose records are gone are removed from the list, whatever other entries the list has", async () => {
  const kept = [await claimPayment(payments.journal, { network: HUNG, asset: HUNG_ASSET })];
  await redis.client.zadd(keys.payments, ...gone(1200));
  await redis.client.zadd(keys.payments, -1, kept[0] as string);
  kept.push(await claimPayment(payments.journal, { network: HUNG, asset: HUNG_ASSET }));
  const { skip } = await gatewayOfBoth();
  await eventually("only these are left", async () => {
    skip(10_000);
    expect(await redis.client.zrange(keys.payments, "0", "-1")).toEqual(kept);
    return true;
  });
});

const UNREADABLE: readonly [string, { record: object; payment: object }][] = [
  ["its record has a state that no process writes", { record: { st: "PLEDGED" }, payment: {} }],
  ["its record cannot be read", { record: { st: "PLEDGED" }, payment: { terms: "?", call: "?" } }],
];
test.each(sample(UNREADABLE))(
  "a payment stays unchanged, is logged, and delays no other payment, if %s",
  async (_, damage) => {
    const made = { network: HUNG, asset: HUNG_ASSET };
    const id = await lost(made);
    await redis.client.hset(keys.record(id), damage.record);
    if (Object.keys(damage.payment).length > 0) await redis.client.hset(keys.payment(id), damage.payment);
    const stored = () =>
      Promise.all([keys.record(id), keys.payment(id)].map((key) => redis.client.hgetall(key)));
    const before = await stored();

    const { log, undisturbed } = await gatewayOfBoth();
    await eventually("it is logged", () => log.text().includes("payment.unreadable"));
    const other = await undisturbed(() => lost(made));
    await eventually("another is added again", () => isWaiting(other));

    expect(await stored()).toEqual(before);
    expect(await redis.client.zscore(keys.paymentsDue, id)).toBeNull();
    expect(log.events.filter(({ event }) => event === "payment.unreadable")).toHaveLength(1);
  },
);

onlyInLongRun(() => {
  test("a payment's call keeps the fields that a later release has added, also in the queue", async () => {
    const id = await lost({ network: HUNG, asset: HUNG_ASSET });
    const call = JSON.parse(String(await redis.client.hget(keys.payment(id), "call")));
    await redis.client.hset(
      keys.payment(id),
      "call",
      JSON.stringify({ ...call, callback: "https://example.com" }),
    );
    const { waiting } = await gatewayOfBoth();
    await eventually("its call is added again", () => isWaiting(id));
    expect(await waiting()).toMatchObject([{ id, callback: "https://example.com" }]);
  });
});

/** Counts the layout checks of this Redis by gateways. A gateway makes one each time it looks for due payments. */
async function checks(): Promise<number> {
  return Number(/cmdstat_config\|get:calls=(\d+)/.exec(await redis.client.info("commandstats"))?.[1]);
}

test("a gateway of another layout takes no payment, even if its host keeps running it", async () => {
  await redis.client.set(keys.layout, JSON.stringify({ layout: LAYOUT + 1, release: "9.8.7" }));
  const id = await lost({ network: HUNG, asset: HUNG_ASSET });
  const dueAt = await redis.client.zscore(keys.paymentsDue, id);
  const x402 = await payments.gateway({ early: true });
  await expect(x402.gateway.firstCheck).rejects.toMatchObject({ code: "start.layout_mismatch" });
  const before = await checks();
  await eventually("some rounds have passed", async () => (await checks()) > before + 3);
  expect(await redis.client.zscore(keys.paymentsDue, id)).toBe(dueAt);
  await redis.client.del(keys.layout);
  await eventually("it is taken up once the layout is this one", () => isWaiting(id));
});

const DAMAGE: Record<string, (id: string) => Promise<unknown>> = {
  "terms that are not JSON": (id) => redis.client.hset(keys.payment(id), "terms", "{"),
  "terms without an amount": (id) => redis.client.hset(keys.payment(id), "terms", '{"network":"eip155:1"}'),
  "a settlement that is not JSON": (id) => redis.client.hset(keys.payment(id), "settlement", "!"),
};

test.each(sample(Object.entries(DAMAGE)))(
  "a payment with %s is left to an operator, and does not delay the other payments",
  async (_, damage) => {
    const { network, token: asset } = devnet;
    const waiting = await Promise.all(Array.from({ length: 9 }, () => lost({ network, asset })));
    const [open, paid] = [
      await claimPayment(payments.journal, { network, asset }),
      await queuePayment(payments.journal, { network, asset }),
    ];
    await Promise.all([damage(open), damage(paid)]);
    const { log } = await payments.gateway();
    await eventually(
      "the other calls wait",
      async () => (await Promise.all(waiting.map(isWaiting))).every(Boolean),
      3000,
    );
    await eventually("they are left to an operator", async () => {
      const due = await redis.client.zrange(keys.paymentsDue, "0", "-1");
      return !due.includes(open) && !due.includes(paid);
    });
    expect(await redis.client.hget(keys.record(open), "st")).toBe("REVIEW");
    expect(await redis.client.zrange(keys.paymentsInReview, "0", "-1")).toEqual([open]);
    expect(await redis.client.hget(keys.payment(paid), "reason")).toMatch(/cannot be read/);
    expect(await isWaiting(paid)).toBe(true);
    const told = log.events.filter(({ event }) => event === "payment.unreadable").map(({ fields }) => fields);
    expect(told).toMatchObject(
      expect.arrayContaining([expect.objectContaining({ callId: open, state: "SETTLING" })]),
    );
  },
);

test("a payment whose record is gone is removed from all lists", async () => {
  const { network, token: asset } = devnet;
  const id = await claimPayment(payments.journal, { network, asset });
  const terms = JSON.parse(String(await redis.client.hget(keys.payment(id), "terms"))) as { payer: string };
  await redis.client.del(keys.record(id));
  await payments.gateway();
  const lists = [keys.paymentsDue, keys.payments, keys.paymentsUnresolved];
  await eventually("it is forgotten", async () => {
    const scores = await Promise.all(lists.map((list) => redis.client.zscore(list, id)));
    return scores.every((score) => score === null);
  });
  expect(await redis.client.smembers(keys.openPayments(terms.payer))).toEqual([]);
});
