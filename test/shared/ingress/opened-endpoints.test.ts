import { beforeEach, expect, test } from "vitest";
import { createOpenedEndpoints, createTakeSecret } from "../../../shared/ingress/opened-endpoints.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { audited } from "../../support/audited.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const ends = useEnds();
const SECRET = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";
const ADDRESS = "192.0.2.1";
const MINUTE = 60_000;

const endpoints = () => createOpenedEndpoints(redis.partition);
const opening = (by: string) => ({ at: 1, action: "open", path: "/a", by, selection: "for 1 min" }) as const;
const CLOSING = { at: 1, action: "close", path: "/a", by: "me@here", selection: "by path" } as const;
const take = (secret = SECRET, path = "/a") => createTakeSecret(redis.partition)(path, secret, ADDRESS);

async function connectedTo(url: string) {
  const client = connectForRequests({ url: new Secret(url) }, silentLogger);
  ends.defer(() => client.disconnect());
  await whenReady(client, 5000);
  return client;
}

beforeEach(async () => {
  await redis.client.flushdb();
});

test("a handshake's secret is refused unless an operator has opened exactly this endpoint", async () => {
  expect(await take()).toBe(false);
  await endpoints().open(opening("me@here"), MINUTE);
  expect(await take(SECRET, "/b")).toBe(false);
  expect(await take()).toBe(true);
});

test("many concurrent handshakes store one secret, and only a handshake with that secret may be repeated", async () => {
  await endpoints().open(opening("me@here"), MINUTE);
  const secrets = Array.from({ length: 20 }, (_, i) => `secret-${i}`);
  const taken = await Promise.all(secrets.map((secret) => take(secret)));
  expect(taken.filter(Boolean)).toHaveLength(1);
  const first = secrets[taken.indexOf(true)];
  expect(await take(first)).toBe(true);
  expect(await take("another")).toBe(false);
});

test("a secret is shown once, and then it is deleted from Redis and the endpoint is closed", async () => {
  const opened = await endpoints().open(opening("me@here"), MINUTE);
  expect(await opened.look()).toEqual({ kind: "open" });
  await take();
  const looks = await Promise.all([opened.look(), opened.look(), opened.close()]);
  expect(looks.filter(({ kind }) => kind === "secret")).toEqual([
    { kind: "secret", secret: SECRET, address: ADDRESS, takenAt: expect.any(Number) },
  ]);
  expect(await opened.look()).toEqual({ kind: "closed" });
  const left = await redis.client.keys("*");
  expect(left.filter((key) => !key.startsWith("{postern}:audit:"))).toEqual([]);
  expect(await audited(redis.client)).toMatchObject([{ action: "open", path: "/a", by: "me@here" }]);
  expect(await take()).toBe(false);
});

test("if two operators open an endpoint, the later one gets the secret, and the earlier one learns who took over", async () => {
  const earlier = await endpoints().open(opening("ann@here"), MINUTE);
  const later = await endpoints().open(opening("bob@there"), MINUTE);
  await take();
  expect(await earlier.look()).toEqual({ kind: "taken-over", by: "bob@there" });
  expect(await earlier.close()).toEqual({ kind: "taken-over", by: "bob@there" });
  expect(await later.look()).toMatchObject({ kind: "secret", secret: SECRET });
});

test("if a command has died, its secret is shown to the next operator who opens the endpoint", async () => {
  await endpoints().open(opening("ann@here"), MINUTE);
  await take();
  const again = await endpoints().open(opening("ann@here"), MINUTE);
  expect(await again.look()).toMatchObject({ kind: "secret", secret: SECRET });
});

test("closing an endpoint returns a secret that has arrived meanwhile, and refuses later ones", async () => {
  const opened = await endpoints().open(opening("me@here"), MINUTE);
  await take();
  expect(await opened.close()).toMatchObject({ kind: "secret", secret: SECRET });
  const next = await endpoints().open(opening("me@here"), MINUTE);
  expect(await next.close()).toEqual({ kind: "open" });
  expect(await take()).toBe(false);
});

test("an endpoint stays open for its minutes, and an unseen secret stays in Redis for ten minutes", async () => {
  const left = () => redis.client.pttl(keys.opened("/a"));
  await endpoints().open(opening("me@here"), MINUTE);
  expect(await left()).toBeGreaterThan(MINUTE / 2);
  expect(await left()).toBeLessThanOrEqual(MINUTE);
  await take();
  await endpoints().open(opening("me@here"), 120 * MINUTE);
  expect(await left()).toBeGreaterThan(9 * MINUTE);
  expect(await left()).toBeLessThanOrEqual(10 * MINUTE);
});

test("any operator may close an endpoint, and learns whether a secret was lost", async () => {
  await endpoints().open(opening("ann@here"), MINUTE);
  expect(await endpoints().close(CLOSING)).toEqual({ by: "ann@here", hadSecret: false });
  expect(await endpoints().close(CLOSING)).toBeUndefined();
  const opened = await endpoints().open(opening("ann@here"), MINUTE);
  await take();
  expect(await endpoints().close(CLOSING)).toEqual({ by: "ann@here", hadSecret: true });
  expect(await opened.look()).toEqual({ kind: "closed" });
});

test.each(["first", "last"])(
  "a secret that arrives while the endpoint is being closed is refused or reported as lost, if it arrives %s",
  async (order) => {
    await take(); // loads the script
    await endpoints().open(opening("ann@here"), MINUTE);
    const taking = order === "first" ? take() : undefined;
    const closing = endpoints().close(CLOSING);
    const taken = await (taking ?? take());
    expect(await closing).toEqual({ by: "ann@here", hadSecret: taken });
  },
);

test("Redis is queried at most once a second for each endpoint, no matter how many handshakes arrive, and the next query notices an opened endpoint", async () => {
  let now = 0;
  const proxied = await connectedTo(proxy.url);
  const takeHere = createTakeSecret(partitionOf(proxied), () => now);
  const flood = (path: string) =>
    Promise.all(Array.from({ length: 100 }, (_, i) => takeHere(path, `guess-${i}`, ADDRESS)));
  await takeHere("/warm", SECRET, ADDRESS); // loads the script
  let queries = 0;
  proxy.onCommand = () => {
    queries += 1;
    return undefined;
  };
  for (const path of ["/a", "/b"]) {
    for (let i = 0; i < 3; i += 1) expect((await flood(path)).filter(Boolean)).toEqual([]);
  }
  expect(queries).toBe(2);

  await endpoints().open(opening("me@here"), MINUTE);
  now += 999;
  expect(await takeHere("/a", SECRET, ADDRESS)).toBe(false);
  now += 1;
  expect(await takeHere("/a", SECRET, ADDRESS)).toBe(true);
  expect((await flood("/a")).filter(Boolean)).toEqual([]);
  expect(await takeHere("/a", SECRET, ADDRESS)).toBe(true);
  expect(queries).toBe(3);
});

test("a secret is refused with queue.unavailable while Redis is unavailable", async () => {
  const proxied = await connectedTo(proxy.url);
  proxy.onCommand = () => ({ kind: "lose-command" });
  await expect(createTakeSecret(partitionOf(proxied))("/a", SECRET, ADDRESS)).rejects.toMatchObject({
    code: "queue.unavailable",
  });
});

test.each(["", "two words", "new\nline", "é", "x".repeat(257)])(
  "a secret that is not 1 to 256 visible ASCII characters is refused: %j",
  async (secret) => {
    await endpoints().open(opening("me@here"), MINUTE);
    expect(await take(secret)).toBe(false);
    expect(await take()).toBe(true);
  },
);
