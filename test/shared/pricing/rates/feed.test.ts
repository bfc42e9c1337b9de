import { beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { createReadRateHistory } from "../../../../shared/pricing/rates/history.ts";
import { createRates, type Rates } from "../../../../shared/pricing/rates/rates.ts";
import { createSharedValue } from "../../../../shared/pricing/rates/shared-value.ts";
import type { LiveToken } from "../../../../shared/pricing/rates/source.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useRateSources } from "../../../fixtures/rate-sources.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { tokenWith } from "../../../support/rate-tokens.ts";
import { recordingLog } from "../../../support/recording-log.ts";

type Token = ReturnType<typeof tokenWith>;

const fixture = useRateSources();
const redis = useOwnRedis();
const ends = useEnds();
let token: Token;
let running: Rates<Token>;
let log: ReturnType<typeof recordingLog>;
let skewMs = 0;
beforeAll(async () => {
  const feed = await fixture.feed();
  await fixture.write(feed);
  const source = { source: "chainlink", rpc_url: fixture.proxy.url, feed, max_age_secs: 86_400 };
  token = tokenWith(source, { rate_refresh_secs: 600, max_rate_age_secs: 1300 });
});
beforeEach(async () => {
  await redis.client.flushdb();
  skewMs = 0;
  ({ rates: running, log } = replica(token));
});

/** Makes the rates of a separate replica, which are not read yet. */
function replica(...tokens: Token[]) {
  const log = recordingLog();
  const requests = connectForRequests({ url: new Secret(redis.url) }, log);
  ends.defer(() => requests.disconnect());
  const clock = () => Date.now() + skewMs;
  const rates = createRates({ tokens, partition: partitionOf(requests), clock, log });
  ends.defer(rates.close);
  return { rates, log };
}

const eventsOf = (name: string, of = log) => of.events.filter(({ event }) => event === name);
const failures = () => eventsOf("rate.failed");
const untilKnown = () => eventually("there is a rate", () => running.of(token) === "3200");

const A_TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const BECAUSE = expect.stringMatching(/latestRoundData.*status 500/);

/** Waits for a failed read, and returns the key of the shared rate. */
const untilFailed = () =>
  eventually("the failure is shared", async () => {
    const [key = ""] = await redis.client.keys("{postern}:rate:*");
    return (await redis.client.hexists(key, "failures")) ? key : undefined;
  });

test("a source that failed is read again long before its period ends", async () => {
  fixture.proxy.answer = "failing";
  void running.start();
  const key = await untilFailed();
  expect(failures()).toHaveLength(1);
  const [secs] = await redis.client.time();
  const waitMs = Number(await redis.client.hget(key, "due_at")) - Number(secs) * 1000;
  expect(waitMs).toBeLessThan(7000);
  // This simulates that the wait is over.
  await redis.client.hincrby(key, "due_at", -waitMs);
  fixture.proxy.answer = "well";
  await untilKnown();
});

test("a replica that has not read a failing source itself says why there is no rate, and since when", async () => {
  fixture.proxy.answer = "failing";
  void running.start();
  await untilFailed();
  running.close();
  fixture.proxy.calls = 0;
  const other = replica(token);
  void other.rates.start();
  await eventually("it is told", () => eventsOf("rate.failed", other.log).length > 0);
  expect(eventsOf("rate.failed", other.log)).toMatchObject([
    { fields: { reason: BECAUSE, failedAt: expect.stringMatching(A_TIME) } },
  ]);
  const [{ failure } = {}] = other.rates.observed();
  expect(failure).toMatchObject({ reason: BECAUSE });
  expect(Math.abs(Date.now() - Number(failure?.at))).toBeLessThan(30_000);
  expect(fixture.proxy.calls).toBe(0);
});

onlyInLongRun(() => {
  test("a replica whose rate gets too old says why, even if another one has read the source, and forgets the reason after the next good read", async () => {
    const often = { ...token, rate_refresh_secs: 3, max_rate_age_secs: 900 };
    const [reader, other] = [replica(often), replica(often)];
    for (const { rates } of [reader, other]) rates.start();
    await eventually("both have it", () => [reader, other].every(({ rates }) => rates.of(often) === "3200"));
    reader.rates.close();
    const [key = ""] = await redis.client.keys("{postern}:rate:*");
    const shared = createSharedValue(redis.partition, often as LiveToken);
    const { now } = await shared.peek();
    await shared.failed(now, "the feed is asleep");
    // No replica gets its turn during the test.
    await redis.client.hset(key, "due_at", now + 14_000);
    fixture.proxy.calls = 0;
    await redis.client.hincrby(key, "read_at", -901_000);
    skewMs += 901_000;
    await eventually("it is too old", () => eventsOf("rate.stale", other.log).length > 0);
    expect(eventsOf("rate.stale", other.log)).toMatchObject([
      { fields: { reason: "the feed is asleep", failedAt: expect.stringMatching(A_TIME) } },
    ]);
    expect(fixture.proxy.calls).toBe(0);
    await redis.client.hset(key, "due_at", 0);
    await eventually("it is read", () => other.rates.of(often) === "3200");
    expect(other.rates.observed()).toMatchObject([{ value: "3200", failure: undefined }]);
  });
});

test("a read rate is added to the history of every token with this rate", async () => {
  const other = { ...token, network: "eip155:10", symbol: "OTHER" } as Token;
  const { rates } = replica(token, other);
  void rates.start();
  const readHistory = createReadRateHistory(partitionOf(redis.client));
  for (const each of [token, other])
    await eventually("its history has it", async () => {
      const { values } = await readHistory(each as LiveToken, "1h");
      return values.at(-1) === "3200";
    });
});

test("a refusal of Redis to share a rate is logged once, and the rate is available once Redis accepts it", async () => {
  await redis.client.call("ACL", "SETUSER", "default", "-@scripting");
  void running.start();
  await eventually("it is told", () => failures().length > 0);
  const refused = async () => Number(/rejected_calls=(\d+)/.exec(await evalshaStats())?.[1] ?? 0);
  const before = await refused();
  await eventually("it was refused again", async () => (await refused()) > before);
  await redis.client.call("ACL", "SETUSER", "default", "+@all");
  await untilKnown();
  expect(failures()).toMatchObject([
    { fields: { reason: expect.stringMatching(/^the shared rate: NOPERM/) } },
  ]);
});

async function evalshaStats(): Promise<string> {
  return /cmdstat_evalsha:.*/.exec(await redis.client.info("commandstats"))?.[0] ?? "";
}
