import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PricingOptions } from "../../services/pricing/pricing.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { toHex } from "../../shared/ethereum/encoding.ts";
import { createSigner, recoverAddress } from "../../shared/ethereum/signatures.ts";
import { domainSeparator } from "../../shared/ethereum/typed-data.ts";
import { jobQuoteDigest } from "../../shared/pricing/job-quote.ts";
import { startRedisProxy } from "../support/redis-proxy.ts";
import type { Unary } from "../support/reflected.ts";
import {
  DOMAIN,
  ENGINE,
  type Engine,
  INPUTS,
  KEY,
  NOW_SECS,
  OPERATOR,
  SEPARATOR,
  startEngine,
  toQuote,
  wireRequest,
} from "./pricing-fixture.ts";

let redis: PrivateRedis;
let now = NOW_SECS * 1000;
let one: Engine;
let two: Engine;
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  const options = { redisUrl: redis.url, clock: () => now };
  [one, two] = await Promise.all([startEngine(options), startEngine(options)]);
});
afterAll(async () => {
  await Promise.all([one.close(), two.close()]);
  await redis.stop();
});

const proofs = () => one.redis.keys("{postern}:pricing:proof:*");

/** Who signed what an engine answers, for this domain. */
function signerOf({ response = {} }: Unary, separator: string) {
  return recoverAddress(jobQuoteDigest(separator, toQuote(response)), toHex(response["signature"] as Buffer));
}

describe("a proof of work serves one request", () => {
  test("the same content gets the first quote again, whichever replica answers and however late", async () => {
    const request = wireRequest();
    const first = await one.ask(request);
    now += 29_000;
    const again = await Promise.all([one.ask(request), two.ask(request)]);
    now -= 29_000;
    expect(first.code).toBe(status.OK);
    expect(again).toEqual([first, first]);
  });

  test("the same content gets the first quote even where the price is another one by now", async () => {
    const jobs = [{ serviceId: 42, jobIndex: 3, priceWei: 5000n }];
    const changed = await startEngine({ redisUrl: redis.url, jobs });
    const request = wireRequest();
    const first = await one.ask(request);
    expect(await changed.ask(request)).toEqual(first);
    const fresh = await changed.ask(wireRequest());
    const details = expect.objectContaining({ price: Buffer.from(`${"0".repeat(60)}1388`, "hex") });
    expect(fresh.response?.["quote_details"]).toEqual(details);
    await changed.close();
  });

  const others: [string, Pick<Partial<PricingOptions>, "key" | "domain">][] = [
    ["key", { key: { reveal: () => `0x${"1".repeat(64)}` } }],
    ["chain", { domain: { ...DOMAIN, chainId: 1 } }],
    ["contract", { domain: { ...DOMAIN, verifyingContract: OPERATOR } }],
  ];
  test.each(others)(
    "an engine with another %s on the same Redis is another engine: it answers with a quote of its own",
    async (_, its) => {
      const other = await startEngine({ redisUrl: redis.url, ...its });
      const signer = createSigner(its.key?.reveal() ?? KEY).address;
      const separator = domainSeparator(its.domain ?? DOMAIN);
      const request = wireRequest();
      const first = await one.ask(request);
      const own = await other.ask(request);
      expect(signerOf(first, SEPARATOR)).toBe(OPERATOR);
      expect(signerOf(own, separator)).toBe(signer);
      expect(own.response?.["operator_id"]).toEqual(Buffer.from(signer.slice(2), "hex"));
      expect(await other.ask(request)).toEqual(own);
      expect(await one.ask(request)).toEqual(first);
      await other.close();
    },
  );

  test.each([
    ["requester", { requester: Buffer.alloc(20, 9) }],
    ["inputs_hash", { inputs_hash: Buffer.alloc(32, 9) }],
    ["job_index", { job_index: 255 }],
  ])("another %s is refused, at every replica", async (_, other) => {
    const request = wireRequest();
    expect(await one.ask(request)).toMatchObject({ code: status.OK });
    for (const engine of [one, two]) {
      expect(await engine.ask({ ...request, ...other })).toEqual({
        code: status.INVALID_ARGUMENT,
        details: "proof_of_work: was used for another request",
      });
    }
    expect(await two.ask(request)).toMatchObject({ code: status.OK });
  });

  test("of many that race for it at two replicas with different contents, one wins, and its repeats with it", async () => {
    const request = wireRequest();
    const contents = Array.from({ length: 40 }, (_, i) => ({
      ...request,
      inputs_hash: Buffer.alloc(32, 1 + (i % 20)),
    }));
    const answers = await Promise.all(contents.map((content, i) => (i % 2 === 0 ? one : two).ask(content)));
    const won = answers.filter(({ code }) => code === status.OK);
    expect(won).toHaveLength(2);
    expect(won[0]).toEqual(won[1]);
    expect(answers.filter(({ code }) => code === status.INVALID_ARGUMENT)).toHaveLength(38);
  });

  test("of many that race with the same content, all get one quote", async () => {
    const request = wireRequest();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => {
        if (i === 10) now += 1000;
        return (i % 2 === 0 ? one : two).ask(request);
      }),
    );
    now -= 1000;
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]?.code).toBe(status.OK);
  });
});

test("nothing is written for a request without its work, nor for one that is refused", async () => {
  const before = (await proofs()).length;
  await one.ask(wireRequest({ proof_of_work: Buffer.alloc(48) }));
  await one.ask(wireRequest({ require_tee: true }));
  await one.ask(wireRequest({ job_index: 7 }));
  await one.ask(wireRequest({ job_index: 256 }));
  expect(await proofs()).toHaveLength(before);
  await one.ask(wireRequest());
  expect(await proofs()).toHaveLength(before + 1);
});

test("a proof is remembered for longer than it could be used by any replica's clock, and no longer than minutes", async () => {
  await one.ask(wireRequest({ challenge_timestamp: String(NOW_SECS + 30) }));
  const lives = await Promise.all((await proofs()).map((key) => one.redis.pttl(key)));
  expect(Math.max(...lives)).toBeGreaterThan(90_000);
  expect(Math.max(...lives)).toBeLessThanOrEqual(120_000);
  expect(Math.min(...lives)).toBeGreaterThan(0);
});

describe("without Redis no quote is given", () => {
  test("while it is away: UNAVAILABLE at once, health with it, and quotes again when it is back", async () => {
    const mortal = await startRedis({ env: process.env });
    const engine = await startEngine({ redisUrl: mortal.url });
    const request = wireRequest();
    const first = await engine.ask(request);
    await mortal.kill("SIGKILL");
    const refused = { code: status.UNAVAILABLE, details: "Quotes cannot be given now" };
    await eventually("it is refused", async () => (await engine.ask(wireRequest())).code !== status.OK);
    const startedAt = performance.now();
    expect(await engine.ask(wireRequest())).toEqual(refused);
    expect(performance.now() - startedAt).toBeLessThan(2500);
    const health = async () =>
      (await engine.client.call("grpc.health.v1.Health", "Check", { service: ENGINE })).response?.["status"];
    await eventually("it is not healthy", async () => (await health()) === "NOT_SERVING");
    // What can be refused without Redis is.
    expect(await engine.ask(wireRequest({ requester: Buffer.alloc(20) }))).toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
    expect(engine.log.events.filter(({ event }) => event === "quote.issued")).toHaveLength(1);
    await mortal.restart();
    // Redis was killed, and nothing it was told is forgotten.
    const again = await eventually("Redis is back", async () => {
      const asked = await engine.ask(request);
      return asked.code === status.OK ? asked : undefined;
    });
    expect(again).toEqual(first);
    await eventually("it is healthy", async () => (await health()) === "SERVING");
    expect(await engine.ask(wireRequest())).toMatchObject({ code: status.OK });
    await engine.close();
    await mortal.stop();
  });

  test("at the start: UNAVAILABLE", async () => {
    const engine = await startEngine({ redisUrl: "redis://127.0.0.1:1", early: true });
    expect(engine.service.readiness().ready).toBe(false);
    expect(await engine.ask(wireRequest())).toMatchObject({ code: status.UNAVAILABLE });
    await engine.close();
  });

  test.each(["hang", "lose-reply", "lose-command"] as const)(
    "with a Redis that does %s: UNAVAILABLE in time; the same request then gets the one quote there is",
    async (kind) => {
      const proxy = await startRedisProxy(redis.url);
      const engine = await startEngine({ redisUrl: proxy.url, clock: () => now });
      await engine.ask(wireRequest());
      let faults = 0;
      proxy.onCommand = ([name]) => {
        if (!/^eval/i.test(name ?? "")) return undefined;
        faults += 1;
        return { kind };
      };
      const request = wireRequest();
      const startedAt = performance.now();
      expect(await engine.ask(request)).toMatchObject({ code: status.UNAVAILABLE });
      expect(performance.now() - startedAt).toBeLessThan(3000);
      expect(faults).toBe(1);
      proxy.onCommand = () => undefined;
      const answer = await eventually("Redis is back", async () => {
        const asked = await engine.ask(request);
        return asked.code === status.OK ? asked : undefined;
      });
      now += 2000;
      const other = await two.ask({ ...request, inputs_hash: INPUTS });
      now -= 2000;
      expect(other).toEqual(answer);
      await engine.close();
      await proxy.close();
    },
  );
});

test("a Redis that keeps nothing is refused at the start", async () => {
  const weak = await startRedis({ env: process.env, args: ["--appendfsync", "everysec"] });
  const engine = await startEngine({ redisUrl: weak.url, early: true });
  await expect(engine.service.firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.UNAVAILABLE });
  await engine.close();
  await weak.stop();
});
