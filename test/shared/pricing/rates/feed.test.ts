import { beforeAll, beforeEach, expect, test } from "vitest";
import { Secret } from "../../../../shared/crypto/secret.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createRates, type Rates } from "../../../../shared/pricing/rates/rates.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useRateSources } from "../../../fixtures/rate-sources.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { tokenWith } from "../../../support/rate-tokens.ts";
import { recordingLog } from "../../../support/recording-log.ts";

type Token = ReturnType<typeof tokenWith>;

const fixture = useRateSources();
const redis = useOwnRedis();
const ends = useEnds();
let token: Token;
let running: Rates<Token>;
let log: ReturnType<typeof recordingLog>;
beforeAll(async () => {
  const feed = await fixture.feed();
  await fixture.write(feed);
  const source = { source: "chainlink", rpc_url: fixture.proxy.url, feed, max_age_secs: 86_400 };
  token = tokenWith(source, { rate_refresh_secs: 600, max_rate_age_secs: 1300 });
});
beforeEach(async () => {
  await redis.client.flushdb();
  log = recordingLog();
  const requests = connectForRequests(new Secret(redis.url), log);
  ends.defer(() => requests.disconnect());
  running = createRates({ tokens: [token], partition: partitionOf(requests), clock: () => Date.now(), log });
  ends.defer(running.close);
});

const failures = () => log.events.filter(({ event }) => event === "rate.failed");
const untilKnown = () => eventually("there is a rate", () => running.of(token) === "3200");

test("a rate's source that failed is asked again long before the period is over", async () => {
  fixture.proxy.answer = "failing";
  running.start();
  const key = await eventually("the failure is shared", async () => {
    const [rate = ""] = await redis.client.keys("{postern}:rate:*");
    return (await redis.client.hexists(rate, "failures")) ? rate : undefined;
  });
  expect(failures()).toHaveLength(1);
  const [secs] = await redis.client.time();
  const waitMs = Number(await redis.client.hget(key, "due_at")) - Number(secs) * 1000;
  expect(waitMs).toBeLessThan(7000);
  // That time is over now.
  await redis.client.hincrby(key, "due_at", -waitMs);
  fixture.proxy.answer = "well";
  await untilKnown();
});

test("that Redis refuses to share a rate is told once, and the rate is there once it does not", async () => {
  await redis.client.call("ACL", "SETUSER", "default", "-@scripting");
  running.start();
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
