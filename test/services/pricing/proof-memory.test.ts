import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { toHex } from "../../../shared/chain/encoding.ts";
import { createSigner, recoverAddress } from "../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../shared/chain/typed-data.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { jobQuoteDigest } from "../../../shared/pricing/job-quote.ts";
import {
  DOMAIN,
  type Engine,
  type EngineOptions,
  KEY,
  NOW_SECS,
  OPERATOR,
  SEPARATOR,
  toQuote,
  usePricing,
  wireRequest,
} from "../../fixtures/pricing.ts";
import type { Unary } from "../../support/reflected.ts";

const pricing = usePricing();
let now = NOW_SECS * 1000;
let one: Engine;
let two: Engine;
beforeAll(async () => {
  const clock = () => now;
  [one, two] = await Promise.all([pricing.engine({ clock }), pricing.engine({ clock })]);
});

const proofs = () => pricing.redis.client.keys("{postern}:pricing:proof:*");

/** Returns the signer of an engine's answer, for this domain. */
function signerOf({ response = {} }: Unary, separator: string) {
  return recoverAddress(jobQuoteDigest(separator, toQuote(response)), toHex(response["signature"] as Buffer));
}

test("a repeated proof of work with the same content gets the first quote, at any replica and at any time", async () => {
  const request = wireRequest();
  const first = await one.ask(request);
  now += 29_000;
  const again = await Promise.all([one.ask(request), two.ask(request)]);
  now -= 29_000;
  expect(first.code).toBe(status.OK);
  expect(again).toEqual([first, first]);
});

test("a repeated proof of work gets the first quote even after the price has changed", async () => {
  const jobs = [{ serviceId: 42, jobIndex: 3, priceWei: 5000n }];
  const changed = await pricing.engine({ jobs });
  const request = wireRequest();
  const first = await one.ask(request);
  expect(await changed.ask(request)).toEqual(first);
  const fresh = await changed.ask(wireRequest());
  const details = expect.objectContaining({ price: Buffer.from(`${"0".repeat(60)}1388`, "hex") });
  expect(fresh.response?.["quote_details"]).toEqual(details);
});

const others: [string, Pick<EngineOptions, "key" | "domain">][] = [
  ["key", { key: new Secret(`0x${"1".repeat(64)}`) }],
  ["chain", { domain: { ...DOMAIN, chainId: 1 } }],
  ["contract", { domain: { ...DOMAIN, verifyingContract: OPERATOR } }],
];
test.each(others)(
  "an engine with another %s on the same Redis is separate and gives its own quote",
  async (_, its) => {
    const other = await pricing.engine(its);
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
  },
);

test.each([
  ["requester", { requester: Buffer.alloc(20, 9) }],
  ["inputs_hash", { inputs_hash: Buffer.alloc(32, 9) }],
  ["job_index", { job_index: 255 }],
])(
  "two clients with one proof of work and a different %s each get a quote, and each gets the same one again at every replica",
  async (_, other) => {
    const request = wireRequest();
    const requests = [request, { ...request, ...other }];
    const first = await Promise.all(requests.map((each) => one.ask(each)));
    expect(first.map(({ code }) => code)).toEqual([status.OK, status.OK]);
    expect(first[0]?.response?.["signature"]).not.toEqual(first[1]?.response?.["signature"]);
    now += 1000;
    const again = await Promise.all(requests.map((each) => two.ask(each)));
    now -= 1000;
    expect(again).toEqual(first);
  },
);

test("if many contents from one address use one proof of work at two replicas, eight get a quote, and their repeats get the same", async () => {
  const request = wireRequest();
  const contents = Array.from({ length: 40 }, (_, i) => ({
    ...request,
    inputs_hash: Buffer.alloc(32, 1 + (i % 20)),
  }));
  const answers = await Promise.all(contents.map((content, i) => (i % 2 === 0 ? one : two).ask(content)));
  const won = answers.filter(({ code }) => code === status.OK);
  expect([won.length, new Set(won.map((answer) => JSON.stringify(answer))).size]).toEqual([16, 8]);
  const lost = answers.filter(({ code }) => code === status.INVALID_ARGUMENT);
  expect(lost).toHaveLength(24);
  expect(lost[0]?.details).toMatch(/^proof_of_work: .*proof of work.*random nonce/);
});

describe("a quote that has expired", () => {
  const LIFE_SECS = 10;
  const shortLived = () => pricing.engine({ clock: () => now, quote_ttl_secs: LIFE_SECS });

  test("a repeated proof of work gets its first quote until that has less than five seconds left, and then a new one that replaces it", async () => {
    const [engine, replica] = await Promise.all([shortLived(), shortLived()]);
    const request = wireRequest();
    const first = await engine.ask(request);
    const startedAt = now;
    now += (LIFE_SECS - 5) * 1000;
    expect(await engine.ask(request)).toEqual(first);
    now += 1000;
    const second = await replica.ask(request);
    expect(second.code).toBe(status.OK);
    expect(toQuote(second.response!).expiry).toBe(BigInt(Math.floor(now / 1000) + LIFE_SECS));
    expect(signerOf(second, SEPARATOR)).toBe(OPERATOR);
    now += 1000;
    expect(await engine.ask(request)).toEqual(second);
    now = startedAt;
  });

  test("the new quote does not count as a further content of its proof of work", async () => {
    const engine = await shortLived();
    const request = wireRequest();
    const ask = (i: number) => engine.ask({ ...request, inputs_hash: Buffer.alloc(32, i) });
    const codes = async (...contents: number[]) =>
      (await Promise.all(contents.map(ask))).map(({ code }) => code);
    const startedAt = now;
    await engine.ask(request);
    now += LIFE_SECS * 1000 + 1000;
    expect(await engine.ask(request)).toMatchObject({ code: status.OK });
    expect(await codes(1, 2, 3, 4, 5, 6, 7)).toEqual(Array(7).fill(status.OK));
    expect(await codes(8)).toEqual([status.INVALID_ARGUMENT]);
    now = startedAt;
  });
});

test("many concurrent requests with one proof of work and the same content all get one quote", async () => {
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

test("a request without a valid proof of work, or one that is refused, writes nothing to Redis", async () => {
  const before = (await proofs()).length;
  await one.ask(wireRequest({ proof_of_work: Buffer.alloc(48) }));
  await one.ask(wireRequest({ require_tee: true }));
  await one.ask(wireRequest({ job_index: 7 }));
  await one.ask(wireRequest({ job_index: 256 }));
  expect(await proofs()).toHaveLength(before);
  await one.ask(wireRequest());
  expect(await proofs()).toHaveLength(before + 1);
});

test("a proof of work is stored for longer than any replica accepts it, but only for minutes", async () => {
  await one.ask(wireRequest({ challenge_timestamp: String(NOW_SECS + 30) }));
  const lives = await Promise.all((await proofs()).map((key) => pricing.redis.client.pttl(key)));
  expect(Math.max(...lives)).toBeGreaterThan(90_000);
  expect(Math.max(...lives)).toBeLessThanOrEqual(120_000);
  expect(Math.min(...lives)).toBeGreaterThan(0);
});
