import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Secret } from "../../shared/crypto/secret.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { createRates, type Rates } from "../../shared/pricing/rates/rates.ts";
import { connectForRequests, connectForWork, type Redis } from "../../shared/redis/connect.ts";
import { recordingLog } from "../support/recording-log.ts";
import { type RatesFixture, startRatesFixture } from "./rates-fixture.ts";
import { tokenWith } from "./sources.ts";

type Token = ReturnType<typeof tokenWith>;

let fixture: RatesFixture;
let server: PrivateRedis;
let redis: Redis;
let requests: Redis;
let token: Token;
let running: Rates<Token> | undefined;
let log: ReturnType<typeof recordingLog>;
beforeAll(async () => {
  [fixture, server] = await Promise.all([startRatesFixture(), startRedis({ env: process.env })]);
  redis = connectForWork(new Secret(server.url), recordingLog());
  const feed = await fixture.feed();
  await fixture.write(feed);
  const source = { source: "chainlink", rpc_url: fixture.proxy.url, feed, max_age_secs: 86_400 };
  token = tokenWith(source, { rate_refresh_secs: 600, max_rate_age_secs: 1300 });
});
beforeEach(async () => {
  await redis.flushdb();
  fixture.proxy.answer = "well";
  log = recordingLog();
  requests = connectForRequests(new Secret(server.url), log);
  running = createRates({ tokens: [token], redis: requests, clock: () => Date.now(), log });
});
afterEach(() => {
  running?.close();
  requests.disconnect();
});
afterAll(async () => {
  redis.disconnect();
  await fixture.stop();
  await server.stop();
});

const failures = () => log.events.filter(({ event }) => event === "rate.failed");
const untilKnown = () => eventually("there is a rate", () => running?.of(token) === "3200");

test("a source that failed is asked again long before the period is over", async () => {
  fixture.proxy.answer = "failing";
  running?.start();
  await eventually("it is told", () => failures().length > 0);
  fixture.proxy.answer = "well";
  await untilKnown();
});

test("that Redis refuses is told once, and the rate is there once it does not", async () => {
  await redis.call("ACL", "SETUSER", "default", "-@scripting");
  running?.start();
  await eventually("it is told", () => failures().length > 0);
  const refused = async () => Number(/rejected_calls=(\d+)/.exec(await evalshaStats())?.[1] ?? 0);
  const before = await refused();
  await eventually("it was refused again", async () => (await refused()) > before + 1);
  await redis.call("ACL", "SETUSER", "default", "+@all");
  await untilKnown();
  expect(failures()).toMatchObject([
    { fields: { reason: expect.stringMatching(/^the shared rate: NOPERM/) } },
  ]);
});

async function evalshaStats(): Promise<string> {
  return /cmdstat_evalsha:.*/.exec(await redis.info("commandstats"))?.[0] ?? "";
}
