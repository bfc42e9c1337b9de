import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { keysOf, PREFIX } from "../../../shared/redis/keys.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { type Answer, openRaw, send } from "../../support/http.ts";
import { LONG_RUN, onlyInLongRun } from "../../support/long-run.ts";
import { deliverResultOn } from "../../support/results.ts";

/*
 * No producer runs in these tests. A call ends when its result is delivered.
 */

const webhooks = useWebhooks();
const proxy = useRedisProxy(webhooks.redis);

const PATH = "/hooks/command";
const ENDPOINT = { path: PATH, job_id: 1, auth: "none", respond: "result", wait_secs: 60 };

type More = Partial<Parameters<typeof webhooks.start>[0]>;

const start = (more: More = {}) => webhooks.start({ endpoints: [ENDPOINT], ...more });
const deliver = ({ address }: TestWebhooks, body: string | Buffer = "hello") =>
  send(address, { path: PATH, body });

/** Resolves once this many clients wait. */
const untilWaiting = ({ gateway }: TestWebhooks, count: number) =>
  eventually(`${count} wait`, () => gateway.waiting() === count);

async function endAll(body = "done"): Promise<void> {
  const deliverResult = deliverResultOn(webhooks.redis.partition);
  for (const { id } of await webhooks.waiting()) {
    const answer = { kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" } as const;
    await deliverResult(id, { ...answer, body: Buffer.from(body) });
  }
}

const endingsOf = ({ log }: TestWebhooks) =>
  log.events.filter(({ event }) => event === "wait.ended").map(({ fields }) => fields["ending"]);

const contentOf = (answers: readonly Answer[]) => answers.map(({ status, text }) => [status, text]);

test("all waiting clients are answered once their calls have ended, over one subscribed connection", async () => {
  const gateway = await start();
  const answers = Array.from({ length: 20 }, () => deliver(gateway));
  await untilWaiting(gateway, 20);
  const listening = async () =>
    String(await webhooks.redis.client.client("LIST")).match(/ sub=1 /g)?.length ?? 0;
  await eventually("it listens", async () => (await listening()) > 0);
  expect(await listening()).toBe(1);
  await endAll();
  expect(contentOf(await Promise.all(answers))).toEqual(Array(20).fill([200, "done"]));
  expect(endingsOf(gateway)).toEqual(Array(20).fill("answered"));
});

test("a client whose call ends while the subscribed connection is lost still gets its answer", async () => {
  const gateway = await start();
  const answer = deliver(gateway);
  await untilWaiting(gateway, 1);
  const channel = keysOf(PREFIX).changes;
  await eventually(
    "it listens",
    async () => (await webhooks.redis.client.pubsub("NUMSUB", channel))[1] === 1,
  );
  const killed = webhooks.redis.client.call("CLIENT", "KILL", "TYPE", "pubsub");
  await Promise.all([killed, endAll()]);
  expect(contentOf([await answer])).toEqual([[200, "done"]]);
});

test("a client whose result cannot be read at first is answered once it can be read", async () => {
  let isAway = false;
  let lost = 0;
  proxy.onCommand = (words) => {
    if (!isAway || !words.some((word) => word.includes(":result:"))) return undefined;
    lost += 1;
    return { kind: "lose-command" };
  };
  const gateway = await start({ redisUrl: proxy.url });
  const answer = deliver(gateway);
  await untilWaiting(gateway, 1);
  isAway = true;
  await endAll();
  await eventually("a read is lost", () => lost > 0);
  isAway = false;
  expect(contentOf([await answer])).toEqual([[200, "done"]]);
});

test("the wait of a client that hangs up ends, and its call is not affected", async () => {
  const gateway = await start();
  const raw = openRaw(gateway.address, `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi`);
  await untilWaiting(gateway, 1);
  raw.socket.destroy();
  await untilWaiting(gateway, 0);
  expect(endingsOf(gateway)).toEqual(["hung_up"]);
  expect((await webhooks.waiting()).map(({ bytes }) => bytes)).toEqual([2]);
});

const REQUEST = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello`;

test("a client that ends its side before or during the wait gets its 202 at once", async () => {
  const gateway = await start();
  const clients = [openRaw(gateway.address, REQUEST), openRaw(gateway.address, REQUEST)];
  await untilWaiting(gateway, 2);
  clients.push(openRaw(gateway.address, REQUEST));
  await Promise.all(
    clients.map(async ({ socket, received }) => {
      socket.end();
      await once(socket, "close");
      expect(received()).toMatch(/^HTTP\/1\.1 202 /);
    }),
  );
  expect(gateway.gateway.waiting()).toBe(0);
});

const WAITING = LONG_RUN ? 2000 : 100;

test(`${WAITING} clients that hang up while they wait leave nothing in memory, whether they close the connection or only end their side`, async () => {
  const gateway = await start({ results: { waiters_max: WAITING } });
  const clients = Array.from({ length: WAITING }, () => openRaw(gateway.address, REQUEST).socket);
  await untilWaiting(gateway, WAITING);
  clients.forEach((socket, i) => {
    if (i % 2 === 0) socket.destroy();
    else socket.pause().end();
  });
  await untilWaiting(gateway, 0);
  await eventually("no connection is open", () => gateway.connections() === 0, 20_000);
  for (const socket of clients) socket.destroy();
});

test("a request over the limit on waits gets 202 at once, and the existing waits go on", async () => {
  const gateway = await start({ results: { waiters_max: 1 } });
  const first = deliver(gateway);
  await untilWaiting(gateway, 1);
  expect((await deliver(gateway)).status).toBe(202);
  await endAll();
  expect((await first).status).toBe(200);
  gateway.gateway.drain();
  const refused = gateway.log.events.filter(({ event }) => event === "wait.over_limit");
  expect(refused.map(({ fields }) => fields["times"])).toEqual([1]);
});

test.each(["drain", "stop"] as const)(
  "a gateway that is told to %s answers all waiting clients at once, and closes their connections",
  async (end) => {
    const gateway = await start();
    const answers = Array.from({ length: 3 }, () => deliver(gateway));
    await untilWaiting(gateway, 3);
    gateway.gateway[end]();
    for (const { status, headers } of await Promise.all(answers))
      expect([status, headers["connection"]]).toEqual([202, "close"]);
    expect(endingsOf(gateway)).toEqual(Array(3).fill("stopped"));
  },
);

test("the time in which a request arrives counts as part of its wait", async () => {
  let aheadMs = 0;
  const gateway = await start({ clock: () => Date.now() + aheadMs });
  const head = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha`;
  const raw = openRaw(gateway.address, head);
  await eventually("half of it is there", () => gateway.gateway.bodyBytes() > 0);
  aheadMs = 60_000;
  raw.socket.write("lf");
  await eventually("it is answered", () => raw.received().startsWith("HTTP/1.1 202"));
  expect(endingsOf(gateway)).toEqual([]);
  raw.socket.destroy();
});

test("a gateway that drains begins no new waits", async () => {
  const gateway = await start();
  gateway.gateway.drain();
  expect((await deliver(gateway)).status).toBe(202);
});

onlyInLongRun(() => {
  test("a wait does not keep the request's body in memory", async () => {
    const [count, bytes] = [24, 4 * 1024 * 1024];
    const gateway = await start({ endpoints: [{ ...ENDPOINT, body_limit_bytes: bytes }] });
    const before = await heldBytes();
    const head = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`;
    const clients = [];
    for (let i = 1; i <= count; i++) {
      const client = openRaw(gateway.address, head);
      clients.push(client);
      client.socket.write(Buffer.alloc(bytes, i));
      await untilWaiting(gateway, i);
    }
    expect(gateway.gateway.bodyBytes()).toBe(0);
    expect((await heldBytes()) - before).toBeLessThan(2 * bytes);
    for (const { socket } of clients) socket.destroy();
  });
});

/** Returns the reachable bytes inside and outside the heap. */
async function heldBytes(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  let held = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
    const { heapUsed, external } = process.memoryUsage();
    held = Math.min(held, heapUsed + external);
  }
  return held;
}
