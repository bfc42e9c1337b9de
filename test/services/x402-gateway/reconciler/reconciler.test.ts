import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Secret } from "../../../../shared/crypto/secret.ts";
import { type PrivateRedis, startRedis } from "../../../../shared/dev/redis.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { silentLogger } from "../../../../shared/log/logger.ts";
import { createPaymentJournal, type PaymentJournal } from "../../../../shared/payments/journal.ts";
import { createPaymentList } from "../../../../shared/payments/list.ts";
import { connectForWork, type Redis } from "../../../../shared/redis/connect.ts";
import { keys } from "../../../../shared/redis/keys.ts";
import { type Rpc, startNodeBefore } from "../../../chain/node-before.ts";
import { startX402, type TestX402, x402Table } from "../../../fixtures/x402.ts";
import { newPayer, startTestDevnet, type TestDevnet } from "../../../support/devnet.ts";
import { claimed, settled } from "../../../support/made-payment.ts";
import { signAuthorization } from "../../../support/sign-payment.ts";

const HUNG = "eip155:8453";
const HUNG_ASSET = `0x${"5".repeat(40)}`;
const PRICE = 3_200_000n;

let server: PrivateRedis;
let devnet: TestDevnet;
let redis: Redis;
let journal: PaymentJournal;
let silent: { url: string; server: Server; sockets: Set<Socket> };
let x402: TestX402 | undefined;

beforeAll(async () => {
  [server, devnet] = await Promise.all([startRedis({ env: process.env }), startTestDevnet()]);
  redis = connectForWork(new Secret(server.url), silentLogger);
  journal = createPaymentJournal(redis);
  silent = await startSilent();
});
afterEach(async () => {
  await x402?.close();
  x402 = undefined;
  await redis.flushdb();
});
afterAll(async () => {
  for (const socket of silent.sockets) socket.destroy();
  silent.server.close();
  redis.disconnect();
  await devnet.stop();
  await server.stop();
});

/** A node that takes every connection and never answers. */
async function startSilent(): Promise<typeof silent> {
  const sockets = new Set<Socket>();
  const its = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => its.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(its.address() as AddressInfo).port}`, server: its, sockets };
}

/** A gateway for two tokens: the devnet's, and one on a chain whose node never answers. */
async function gatewayOfBoth(): Promise<TestX402> {
  const [token] = x402Table({ devnet })["accepted_tokens"] as [Record<string, unknown>];
  const hung = { ...token, network: HUNG, asset: HUNG_ASSET, rpc_url: silent.url, symbol: "HUNG" };
  x402 = await startX402({
    devnet,
    redisUrl: server.url,
    early: true,
    x402: { accepted_tokens: [hung, token] as never },
  });
  return x402;
}

const hungPayments = (count: number) =>
  Promise.all(Array.from({ length: count }, () => claimed(journal, { network: HUNG, asset: HUNG_ASSET })));

const isQueued = async (id: string) => (await journal.find(id))?.state === "QUEUED";

/** Paid on the devnet by somebody whom no gateway has seen. */
async function paidOnDevnet(): Promise<string> {
  const { token, chainId, seller, network } = devnet;
  const payer = await newPayer(devnet);
  const signed = await signAuthorization({ payer, to: seller, value: PRICE, token, chainId });
  await devnet.chain.frontRun(signed);
  const { nonce, validBefore } = signed.authorization;
  return claimed(journal, {
    ...{ network, asset: token, pay_to: seller, nonce, valid_before: validBefore },
    payer: payer.address.toLowerCase(),
  });
}

describe("while the node of one chain hangs", () => {
  test("what needs only Redis, and payments of other chains, are looked at within seconds", async () => {
    await hungPayments(64);
    const onlyRedis = await settled(journal, { network: HUNG, asset: HUNG_ASSET });
    const other = await paidOnDevnet();
    await gatewayOfBoth();
    await eventually("the settled one is queued", () => isQueued(onlyRedis), 4000);
    await eventually("so is that of the other chain", () => isQueued(other), 4000);

    const later = await settled(journal, { network: HUNG, asset: HUNG_ASSET });
    await eventually("so is one that comes later", () => isQueued(later), 4000);
  });

  test("its own payments stay due, each of them", async () => {
    const ids = await hungPayments(40);
    const { log } = await gatewayOfBoth();
    await eventually("some have failed", () => log.text().includes("payment.reconcile_failed"));
    expect((await redis.zrange(keys.paymentsDue, "0", "-1")).sort()).toEqual([...ids].sort());
  });
});

test("a gateway that stops waits for what is under way, and begins nothing more", async () => {
  const { network, token: asset } = devnet;
  const ids = await Promise.all(Array.from({ length: 40 }, () => claimed(journal, { network, asset })));
  const hangs = ({ params }: Rpc) => (params as unknown[])[0] === "finalized";
  const node = await startNodeBefore(devnet.rpcUrl, hangs);
  onTestFinished(() => node.close());
  x402 = await startX402({ devnet, redisUrl: server.url, token: { rpc_url: node.url } });
  await eventually("some are looked at", () => node.asked.some(hangs));
  await x402.gateway.close();
  const { events } = x402.log;
  const failed = events.filter(({ event }) => event === "payment.reconcile_failed");
  expect(failed.length).toBeGreaterThan(0);
  expect(failed.length).toBeLessThan(ids.length);
  expect(await redis.zcard(keys.paymentsDue)).toBe(ids.length);
});

test("after an outage there is no pause between those that are due", async () => {
  const { network, token: asset } = devnet;
  const ids = await Promise.all(
    Array.from({ length: 160 }, () => settled(journal, { network, asset, payer: `0x${"3".repeat(40)}` })),
  );
  x402 = await startX402({ devnet, redisUrl: server.url });
  const queued = async () => (await Promise.all(ids.map(isQueued))).every(Boolean);
  await eventually("all are queued", queued, 5000);
});

describe("the list of payments does not grow for ever", () => {
  const gone = (count: number) => Array.from({ length: count }, (_, i) => [i, `c_gone${i}`]).flat();

  test("those of which nothing is left are forgotten, whatever else is there", async () => {
    const kept = [await claimed(journal, { network: HUNG, asset: HUNG_ASSET })];
    await redis.zadd(keys.payments, ...gone(1200));
    await redis.zadd(keys.payments, -1, kept[0] as string);
    kept.push(await claimed(journal, { network: HUNG, asset: HUNG_ASSET }));
    await gatewayOfBoth();
    await eventually("only these are left", async () => {
      expect(await redis.zrange(keys.payments, "0", "-1")).toEqual(kept);
      return true;
    });
  });

  test("a page of old ones that are still there is passed over", async () => {
    const old = await hungPayments(500);
    await redis.zadd(keys.payments, ...old.flatMap((id) => [-1, id]), ...gone(700));
    const list = createPaymentList(redis);
    const rank = await list.prune(0);
    expect([rank, await redis.zcard(keys.payments)]).toEqual([500, 1200]);
    expect([await list.prune(rank), await redis.zcard(keys.payments)]).toEqual([0, 500]);
  });
});
