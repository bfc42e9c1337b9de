import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keysOf, PREFIX } from "../../../../shared/redis/keys.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import type { Answer } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { type SignInExtension, signInAs } from "../../../support/sign-in.ts";
import { type Bought, buyCall } from "./bought.ts";
import { type SignInServer, useSignInServers } from "./sign-in-server.ts";

const MINUTE_MS = 60_000;
const OLD = "the first secret of these tests";
const NEW = "the second secret of these tests";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);
const startServer = useSignInServers();
let bought: Bought;
let server: SignInServer;

const serverWith = (...secrets: string[]) =>
  startServer({ devnet: fixture.devnet, redisUrl: proxy.url, x402: { quote_secret: secrets } });

beforeEach(async () => {
  server = await serverWith(OLD);
  bought = await buyCall(fixture);
});

const signIn = (asked: SignInExtension, changes = {}) => signInAs(asked, { payer: bought.payer, ...changes });
const detailIn = (answer: Answer) => [answer.status, answer.json()["detail"]];

test("a sign-in is accepted once, whether it is sent again later or to another replica at the same time", async () => {
  const replica = await serverWith(OLD);
  const header = await signIn(await server.askedFor(bought.id));
  const servers = [server, replica, server, replica, server, replica];
  const answers = await Promise.all(servers.map(({ request }) => request(bought.id, header)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 402, 402, 402, 402, 402]);
  expect(detailIn(await server.request(bought.id, header))).toEqual([402, "nonce: was used before"]);
});

onlyInLongRun(() => {
  test("a used nonce is remembered for as long as the clock of any replica could accept it", async () => {
    const asked = await server.askedFor(bought.id);
    expect((await server.request(bought.id, await signIn(asked))).status).toBe(200);
    const left = await fixture.redis.client.pttl(keysOf(PREFIX).usedSignIn(asked.info.nonce));
    expect(left).toBeGreaterThan(14.9 * MINUTE_MS);
    expect(left).toBeLessThanOrEqual(15 * MINUTE_MS);
  });

  test("a sign-in of two hours ago is refused even at a gateway whose clock is two hours behind, because its use may be forgotten", async () => {
    const behind = await startServer({
      ...{ devnet: fixture.devnet, redisUrl: proxy.url, x402: { quote_secret: [OLD] } },
      clock: () => Date.now() - 120 * MINUTE_MS,
    });
    const header = await signIn(await behind.askedFor(bought.id));
    expect(detailIn(await behind.request(bought.id, header))).toEqual([402, "nonce: has expired"]);
  });
});

test("a sign-in is valid for five minutes, and no longer", async () => {
  const [first, second] = [await server.askedFor(bought.id), await server.askedFor(bought.id)];
  server.skip(4.9 * MINUTE_MS);
  expect((await server.request(bought.id, await signIn(first))).status).toBe(200);
  server.skip(0.2 * MINUTE_MS);
  const expiry = { expirationTime: undefined };
  for (const signed of [{}, expiry]) {
    const answer = await server.request(bought.id, await signIn(second, { signed }));
    expect(detailIn(answer)).toEqual([402, "nonce: has expired"]);
  }
});

onlyInLongRun(() => {
  test("a nonce of a replica whose clock is minutes ahead is accepted, and one of an hour ahead is not", async () => {
    const ahead = await serverWith(OLD);
    ahead.skip(9 * MINUTE_MS);
    const early = await signIn(await ahead.askedFor(bought.id));
    expect((await server.request(bought.id, early)).status).toBe(200);
    ahead.skip(51 * MINUTE_MS);
    const tooEarly = await signIn(await ahead.askedFor(bought.id));
    expect(detailIn(await server.request(bought.id, tooEarly))).toEqual([402, "nonce: has expired"]);
  });
});

const CHANGED: readonly [string, (nonce: string) => string][] = [
  ["with another MAC", (nonce: string) => nonce.replace(/.$/, (last) => (last === "0" ? "1" : "0"))],
  ["with another time", (nonce: string) => `f${nonce.slice(1)}`],
  ["with other randomness", (nonce: string) => `${nonce.slice(0, 12)}${"0".repeat(32)}${nonce.slice(44)}`],
  ["in capitals", (nonce: string) => nonce.toUpperCase()],
  ["cut off", (nonce: string) => nonce.slice(0, -2)],
  ["that a client has made up", () => "0123456789abcdef"],
];
test.each(sample(CHANGED))("a nonce %s is refused without a read of Redis", async (_what, changed) => {
  const asked = await server.askedFor(bought.id);
  const header = await signIn(asked, { signed: { nonce: changed(asked.info.nonce) } });
  const commands: string[] = [];
  proxy.onCommand = ([command = ""]) => {
    if (/eval|get|set/i.test(command)) commands.push(command);
    return undefined;
  };
  expect(detailIn(await server.request(bought.id, header))).toEqual([
    402,
    expect.stringMatching(/^nonce: was not issued by this gateway/),
  ]);
  expect(commands).toEqual([]);
});

test("an answer that asks to sign in costs Redis nothing", async () => {
  const commands: string[] = [];
  proxy.onCommand = (words) => {
    commands.push(words.join(" "));
    return undefined;
  };
  expect((await server.request(bought.id)).status).toBe(402);
  expect(commands).toEqual([]);
});

onlyInLongRun(() => {
  test("a nonce is valid while its secret is one of quote_secret, even if another secret signs new nonces", async () => {
    const [first, second] = [await server.askedFor(bought.id), await server.askedFor(bought.id)];
    const rotated = await serverWith(NEW, OLD);
    const ended = await serverWith(NEW);
    expect((await rotated.request(bought.id, await signIn(first))).status).toBe(200);
    expect(detailIn(await ended.request(bought.id, await signIn(second)))).toEqual([
      402,
      "nonce: was not issued by this gateway for this call",
    ]);
    const made = await signIn(await rotated.askedFor(bought.id));
    expect((await ended.request(bought.id, made)).status).toBe(200);
  });

  test("a refused signature uses up no nonce, and while Redis is unreachable every sign-in is refused", async () => {
    const asked = await server.askedFor(bought.id);
    const wrong = await signIn(asked, { sent: { signature: `0x${"11".repeat(64)}1b` } });
    expect((await server.request(bought.id, wrong)).status).toBe(402);
    const right = await signIn(asked);
    proxy.onCommand = (words) =>
      words.some((word) => word.includes(":sign-in:")) ? { kind: "lose-command" } : undefined;
    const away = await server.request(bought.id, right);
    expect([away.status, away.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(away.headers["retry-after"]).toBe("2");
    proxy.onCommand = () => undefined;
    const later = await eventuallyIn(() => server.request(bought.id, right));
    expect(later.status).toBe(200);
  });
});

/** The server's connection to Redis may still be recovering. */
async function eventuallyIn(request: () => Promise<Answer>): Promise<Answer> {
  return eventually("Redis is back", async () => {
    const answer = await request();
    return answer.status === 503 ? undefined : answer;
  });
}

onlyInLongRun(() => {
  test("a sign-in is accepted even while Redis is over its maxmemory, because its result is paid for", async () => {
    const header = await signIn(await server.askedFor(bought.id));
    const { client } = fixture.redis;
    await client.config("SET", "maxmemory", "1");
    try {
      expect((await server.request(bought.id, header)).status).toBe(200);
      expect(detailIn(await server.request(bought.id, header))).toEqual([402, "nonce: was used before"]);
    } finally {
      await client.config("SET", "maxmemory", "0");
    }
  });

  test("a payer can sign in to one call sixty times a minute and is then refused, and the payer's other calls have their own limits", async () => {
    const now = Date.now();
    server = await startServer({ devnet: fixture.devnet, redisUrl: fixture.redis.url, clock: () => now });
    const other = await buyCall(fixture);
    const statuses = [];
    for (let i = 0; i < 61; i++)
      statuses.push((await server.request(bought.id, await signIn(await server.askedFor(bought.id)))).status);
    expect(statuses).toEqual([...Array(60).fill(200), 429]);
    expect((await server.request(other.id, await signIn(await server.askedFor(other.id)))).status).toBe(200);
  });
});
