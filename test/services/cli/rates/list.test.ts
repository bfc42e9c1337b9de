import type { Hex } from "viem";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { loadConfig } from "../../../../shared/config/config-dir.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { createRates } from "../../../../shared/pricing/rates/rates.ts";
import { createSharedValue } from "../../../../shared/pricing/rates/shared-value.ts";
import { isLive } from "../../../../shared/pricing/rates/source.ts";
import { readX402 } from "../../../../shared/pricing/read-x402.ts";
import { connectForWork } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { SALE_UNSERVED, useRateSources } from "../../../fixtures/rate-sources.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { runHere, runHereWith } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern();
const rates = (...args: string[]) => runHere(["rates", "list", "--config-dir", postern.configDir, ...args]);

const fixture = useRateSources();
const consoles = useOperator({ redis });
let feeds: Hex[];
beforeAll(async () => {
  feeds = [await fixture.feed(), await fixture.feed(), await fixture.feed()];
});
beforeEach(async () => {
  for (const feed of feeds) await fixture.write(feed);
});
afterEach(() => redis.client.flushdb());

const chainlink = (feed = feeds[0]) => ({
  source: "chainlink",
  rpc_url: fixture.proxy.url,
  feed: String(feed),
  max_age_secs: 86_400,
});

type Rate = Parameters<typeof x402Table>[0]["token"];

function configure(token: Rate, redisUrl = asUser(redis.url, "operator")): void {
  const x402 = x402Table({ devnet: SALE_UNSERVED, token: token ?? {} });
  postern.configure({
    postern: { redis: { url: redisUrl } },
    x402,
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
}

/** Reads the rates once and shares them, like a gateway. */
async function shareOnce(): Promise<void> {
  const { x402 } = loadConfig(readX402, { dir: postern.configDir, env: {} });
  const connection = connectForWork({ url: new Secret(redis.url) }, silentLogger);
  const tokens = x402?.accepted_tokens ?? [];
  const partition = partitionOf(connection);
  const running = createRates({ tokens, partition, clock: () => Date.now(), log: silentLogger });
  void running.start();
  const [token] = tokens.filter(isLive);
  const shared = createSharedValue(partition, token!);
  await eventually("it is shared", async () => (await shared.peek()).known !== undefined);
  running.close();
  connection.disconnect();
}

test("postern rates list shows fixed rates without Redis", async () => {
  configure({}, "redis://127.0.0.1:1");
  expect(await runHereWith(postern)(["rates", "list"])).toMatchObject({
    code: 0,
    stdout:
      "USDC (eip155:8453): 3200 per native coin\n  fixed in x402.toml; without limits; the token is accepted\n",
  });
});

test("postern rates list exits with 1 for a rate that was never read, and shows age and bounds of one that was read", async () => {
  configure({ rate_per_native_unit: chainlink(), min_rate: "3000" });
  const before = await rates();
  expect([before.code, before.stdout]).toEqual([
    1,
    expect.stringContaining("the token is NOT ACCEPTED\n  no gateway has read it yet"),
  ]);
  await shareOnce();
  const { code, stdout } = await rates();
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^USDC \(eip155:8453\): 3200 per native coin\n {2}chainlink 0x\w{40}; read \d+\.\d s ago; limits: 3000 to none; the token is accepted\n$/,
  );
  const json = JSON.parse((await rates("-o", "json")).stdout) as { rates: object[] };
  expect(json.rates).toEqual([
    {
      network: "eip155:8453",
      asset: SALE_UNSERVED.token,
      symbol: "USDC",
      min_rate: "3000",
      max_rate: null,
      age_ms: expect.any(Number),
      offered: true,
      source: expect.stringMatching(/^chainlink 0x/),
      value: "3200",
      reason: null,
      last_failure: null,
    },
  ]);
});

test("postern rates list prints the same through the console as from Redis, except ages", async () => {
  configure({ rate_per_native_unit: chainlink(), min_rate: "3000" });
  await shareOnce();
  const { address } = await consoles.start({ configDir: postern.configDir });
  const there = (...args: string[]) =>
    runHere(["rates", "list", "--config-dir", "/nowhere", "--operator", `http://${address}`, ...args], {
      POSTERN_OPERATOR_TOKEN: TOKENS.viewer,
    });
  const withoutAges = (text: string) => text.replace(/\d+\.\d s ago|(?<="age_ms":)\d+/g, "");
  for (const args of [[], ["-o", "json"]]) {
    const [here, byConsole] = [await rates(...args), await there(...args)];
    expect([byConsole.code, withoutAges(byConsole.stdout), byConsole.stderr]).toEqual([
      0,
      withoutAges(here.stdout),
      "",
    ]);
  }
  const bare = await consoles.start();
  const nothing = ["rates", "list", "--config-dir", "/nowhere", "--operator", `http://${bare.address}`];
  expect(await runHere(nothing, { POSTERN_OPERATOR_TOKEN: TOKENS.viewer })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("the console has no x402.toml"),
  });
});

onlyInLongRun(() => {
  test("postern rates list exits with 1 for a rate that is too old", async () => {
    configure({ rate_per_native_unit: chainlink(), max_rate_age_secs: 901 });
    await shareOnce();
    for (const key of await redis.client.keys("{postern}:rate:*"))
      await redis.client.hincrby(key, "read_at", -902_000);
    const { code, stdout } = await rates();
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/no rate\n.*the token is NOT ACCEPTED\n {2}3200 is older than max_rate_age_secs/),
    ]);
  });

  test("postern rates list says when and why the last read failed, for a rate that is still valid and for one that is not", async () => {
    configure({ rate_per_native_unit: chainlink() });
    const { x402 } = loadConfig(readX402, { dir: postern.configDir, env: {} });
    const [token] = (x402?.accepted_tokens ?? []).filter(isLive);
    const shared = createSharedValue(redis.partition, token!);
    const { now } = await shared.takeDue();
    await shared.failed(now, "latestRoundData: status 500");
    const failed = /^ {2}last read failed \d+\.\d s ago: latestRoundData: status 500$/m;
    const unread = await rates();
    expect([unread.code, unread.stdout]).toEqual([1, expect.stringMatching(failed)]);
    await shared.put("3200", now + 1);
    expect((await rates()).stdout).not.toContain("last read failed");
    await shared.failed(now + 2, "latestRoundData: status 500");
    const [used, json] = [await rates(), await rates("-o", "json")];
    expect([used.code, used.stdout]).toEqual([0, expect.stringMatching(failed)]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      rates: [
        {
          offered: true,
          last_failure: { reason: "latestRoundData: status 500", age_ms: expect.any(Number) },
        },
      ],
    });
  });
});

test("postern rates list --test reads every source now, prints the result of each, and prints no secret", async () => {
  const of = feeds.map(chainlink);
  configure(
    { rate_per_native_unit: { source: "median", of, max_deviation_bps: 100 } },
    "redis://127.0.0.1:1",
  );
  await fixture.write(feeds[1]!, { answer: 1n });
  const one = await rates("--test");
  expect(one.code).toBe(0);
  expect(one.stdout).toMatch(/^USDC \(eip155:8453\): 3200 per native coin\n {2}median of 3; /);
  expect(
    one.stdout.match(/^ {4}chainlink 0x\w+: (.*)$/gm)?.map((line) => line.replace(/.*: (?=\d)/, "")),
  ).toEqual([
    "3200",
    expect.stringMatching(/^0.00000001; ignored: differs by more than max_deviation_bps/),
    "3200",
  ]);
  await fixture.write(feeds[2]!, { answer: -5n });
  const two = await rates("--test", "-o", "json");
  const [rate] = (JSON.parse(two.stdout) as { rates: { value: unknown; legs: { reason: string }[] }[] })
    .rates;
  expect([two.code, rate?.value, rate?.legs[2]?.reason]).toEqual([
    1,
    null,
    "the feed answers -5, which is not above 0",
  ]);
  fixture.proxy.answer = "failing";
  const three = await rates("--test");
  fixture.proxy.answer = "well";
  expect([three.code, three.stdout]).toEqual([1, expect.stringContaining("status 500")]);
  expect(JSON.stringify([one, two, three])).not.toMatch(/canary|127\.0\.0\.1/);
});

test("postern rates list exits with 3 without x402.toml, or with an invalid one", async () => {
  postern.configure({ postern: { redis: { url: redis.url } } });
  expect(await rates()).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("x402.toml: file not found"),
  });
  configure({ rate_per_native_unit: { ...chainlink(), feed: "x" } });
  expect(await rates()).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("rate_per_native_unit.feed"),
  });
});
