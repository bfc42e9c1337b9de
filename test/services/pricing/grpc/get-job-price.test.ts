import { status } from "@grpc/grpc-js";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { toResponse } from "../../../../services/pricing/grpc.ts";
import { recoverAddress } from "../../../../shared/chain/signatures.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { type JobQuote, jobQuoteDigest } from "../../../../shared/pricing/job-quote.ts";
import {
  ENGINE,
  type Engine,
  INPUTS,
  KEY,
  NOW_SECS,
  OPERATOR,
  REQUESTER,
  SEPARATOR,
  toQuote,
  usePricing,
  type Wire,
  wireRequest,
} from "../../../fixtures/pricing.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";
import { solve } from "../../../support/solve.ts";

type Fault = readonly [what: string, its: Partial<Wire>, code: status, details: RegExp];

const { INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE } = status;

/** All faults of a request, in the order in which they are checked. */
const FAULTS: readonly Fault[] = [
  [
    "a requester of 19 bytes",
    { requester: Buffer.alloc(19, 1) },
    INVALID_ARGUMENT,
    /^requester: must be a non-zero 20-byte address, not 19 bytes$/,
  ],
  [
    "the zero address as requester",
    { requester: Buffer.alloc(20) },
    INVALID_ARGUMENT,
    /^requester: must be a non-zero 20-byte address, not the zero address$/,
  ],
  ["an inputs_hash of 31 bytes", { inputs_hash: Buffer.alloc(31) }, INVALID_ARGUMENT, /^inputs_hash: /],
  ["no timestamp", { challenge_timestamp: "0" }, INVALID_ARGUMENT, /^challenge_timestamp: is missing/],
  [
    "a timestamp 31 s old",
    { challenge_timestamp: String(NOW_SECS - 31) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  [
    "a timestamp 31 s ahead",
    { challenge_timestamp: String(NOW_SECS + 31) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  [
    "the largest timestamp",
    { challenge_timestamp: String(2n ** 64n - 1n) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  ["a proof without work", { proof_of_work: Buffer.alloc(48) }, INVALID_ARGUMENT, /^proof_of_work: /],
  ["a wish for a TEE", { require_tee: true }, UNAVAILABLE, /^require_tee: /],
  [
    "a job without a price",
    { job_index: 300 },
    NOT_FOUND,
    /^No pricing configured for service 42 job index 300$/,
  ],
  ["a job index of 256", { job_index: 256 }, INVALID_ARGUMENT, /^job_index: /],
];

describe("check-order", () => {
  const pricing = usePricing();
  let engine: Engine;
  beforeAll(async () => {
    engine = await pricing.engine();
  });

  const pairs = FAULTS.flatMap((first, i) =>
    FAULTS.slice(i + 1)
      .filter(([, later]) => Object.keys(later)[0] !== Object.keys(first[1])[0])
      .map((later) => [first[0], later[0], { ...later[1], ...first[1] }, first[2], first[3]] as const),
  );

  test.each(sample(pairs, 3))(
    "a request with %s and %s is refused for the former",
    async (_, _later, both, code, details) => {
      expect(await engine.ask(wireRequest(both))).toEqual({ code, details: expect.stringMatching(details) });
    },
  );
});

describe("events", () => {
  const pricing = usePricing();

  test("every outcome of a request for a price is logged as one event, without the key", async () => {
    const engine = await pricing.engine();
    await engine.ask(wireRequest());
    await engine.ask(wireRequest({ job_index: 9 }));
    const events = engine.log.events.filter(({ event }) => event.startsWith("quote."));
    expect(events).toEqual([
      {
        event: "quote.issued",
        fields: expect.objectContaining({
          via: "grpc",
          serviceId: "42",
          jobIndex: 3,
          priceWei: String(10n ** 18n),
        }),
      },
      { event: "quote.refused", fields: expect.objectContaining({ code: "job.not_found", status: 404 }) },
    ]);
    expect(engine.log.text()).not.toContain(KEY.slice(2));
  });
});

describe("internal", () => {
  const pricing = usePricing();

  test("a request whose stored quote cannot be read is answered with INTERNAL, and only the log has the reason", async () => {
    const engine = await pricing.engine();
    const request = wireRequest();
    await engine.ask(request);
    const { client } = pricing.redis;
    const [key = ""] = await client.keys("{postern}:pricing:proof:*");
    const fields = Object.keys(await client.hgetall(key));
    await client.hset(key, String(fields.find((field) => field.startsWith("quote "))), "broken");
    expect(await engine.ask(request)).toEqual({ code: status.INTERNAL, details: "Internal error" });
    expect(engine.log.events.at(-1)).toMatchObject({
      event: "quote.refused",
      fields: { code: "internal.unexpected", reason: expect.stringContaining("cannot be read") },
    });
  });
});

describe("invalid-argument", () => {
  const pricing = usePricing();
  let engine: Engine;
  beforeAll(async () => {
    engine = await pricing.engine();
  });

  const invalid = FAULTS.filter(([, , code]) => code === status.INVALID_ARGUMENT);

  test.each(invalid)(
    "a request with %s is refused as INVALID_ARGUMENT, and the answer names the field",
    async (_, fault, code, details) => {
      expect(await engine.ask(wireRequest(fault))).toEqual({ code, details: expect.stringMatching(details) });
    },
  );

  /** Clients of the Rust engine distinguish its refusals by these words. */
  const worded: [string, string, Partial<Wire>, string][] = [
    [
      "a timestamp 31 s old",
      "too old",
      { challenge_timestamp: String(NOW_SECS - 31) },
      "challenge_timestamp",
    ],
    [
      "a timestamp 31 s ahead",
      "future",
      { challenge_timestamp: String(NOW_SECS + 31) },
      "challenge_timestamp",
    ],
    ["a proof of zeros", "proof of work", { proof_of_work: Buffer.alloc(48) }, "proof_of_work"],
    ["a proof of 47 bytes", "proof of work", { proof_of_work: Buffer.alloc(47) }, "proof_of_work"],
    ["no proof", "proof of work", { proof_of_work: Buffer.alloc(0) }, "proof_of_work"],
    ["the zero address", "non-zero", { requester: Buffer.alloc(20) }, "requester"],
    ["a requester of 21 bytes", "20-byte", { requester: Buffer.alloc(21, 1) }, "requester"],
    ["inputs_hash of 33 bytes", "32-byte", { inputs_hash: Buffer.alloc(33) }, "inputs_hash"],
  ];
  test.each(sample(worded, 3))("the refusal of %s says %o", async (_, words, fault, field) => {
    const { details } = await engine.ask(wireRequest(fault));
    expect([details.split(":")[0], details]).toEqual([field, expect.stringContaining(words)]);
  });
});

describe("not-found", () => {
  const pricing = usePricing();

  test("a request for a job without a price is answered with NOT_FOUND and the ids that it named", async () => {
    const engine = await pricing.engine();
    expect(await engine.ask(wireRequest({ job_index: 300 }))).toEqual({
      code: status.NOT_FOUND,
      details: "No pricing configured for service 42 job index 300",
    });
  });

  test("a service id that a double cannot represent is not confused with another one, and is NOT_FOUND", async () => {
    const jobs = [{ serviceId: 2 ** 53 - 1, jobIndex: 0, priceWei: 100n }];
    const far = await pricing.engine({ jobs });
    const ask = (service_id: string) => far.ask(wireRequest({ service_id, job_index: 0 }));
    expect(await ask("9007199254740991")).toMatchObject({ code: status.OK });
    expect(await ask("18446744073709551615")).toEqual({
      code: status.NOT_FOUND,
      details: "No pricing configured for service 18446744073709551615 job index 0",
    });
  });
});

describe("ok", () => {
  const pricing = usePricing();
  const hex = (bytes: unknown) => `0x${Buffer.from(bytes as Buffer).toString("hex")}` as const;

  test("a client that knows the engine only by reflection gets a complete quote", async () => {
    const engine = await pricing.engine();
    const request = wireRequest();
    const { code, response } = await engine.ask(request);
    expect(code).toBe(status.OK);
    expect(response).toEqual({
      quote_details: {
        service_id: "42",
        job_index: 3,
        price: Buffer.from(`${"0".repeat(48)}0de0b6b3a7640000`, "hex"),
        timestamp: String(NOW_SECS),
        expiry: String(NOW_SECS + 300),
        confidentiality: 0,
        requester: REQUESTER,
        inputs_hash: INPUTS,
      },
      signature: expect.any(Buffer),
      operator_id: Buffer.from(OPERATOR.slice(2), "hex"),
      proof_of_work: request.proof_of_work,
      settlement_options: [],
      x402_endpoint: "",
      tee_attested: false,
      tee_provider: "",
    });
  });

  test("the signature of a quote recovers the operator_id from the client's data, and from no other data", async () => {
    const engine = await pricing.engine();
    const { response = {} } = await engine.ask(wireRequest({ job_index: 255 }));
    const quote = toQuote(response);
    const signature = response["signature"] as Buffer;
    expect(signature).toHaveLength(65);
    expect([27, 28]).toContain(signature[64]);
    expect(recoverAddress(jobQuoteDigest(SEPARATOR, quote), hex(signature))).toBe(
      hex(response["operator_id"]),
    );
    const dearer = { ...quote, priceWei: quote.priceWei - 1n };
    expect(recoverAddress(jobQuoteDigest(SEPARATOR, dearer), hex(signature))).not.toBe(OPERATOR);
  });

  test("the signature for service 42, job 3, at 1e18 wei, until an hour later, is the known answer", async () => {
    const engine = await pricing.engine({ quote_ttl_secs: 3600, pow_difficulty: 20 });
    // The search takes a second from nonce 0.
    const puzzle = { serviceId: 42n, timestamp: BigInt(NOW_SECS) };
    const proof_of_work = solve(puzzle, 20, LONG_RUN ? 0n : 220_000n);
    const { response = {} } = await engine.ask(wireRequest({ proof_of_work }));
    const digest = Buffer.from("9bd02b8b280e84cda6136def5cae3eb19e0c5ab5bd4619a0cad56bc2c4f15a11", "hex");
    expect(recoverAddress(digest, hex(response["signature"]))).toBe(OPERATOR);
    expect((response["proof_of_work"] as Buffer).readBigUInt64LE(40)).toBe(220_500n);
  });

  test("a quote is valid for the configured time", async () => {
    const engine = await pricing.engine({ quote_ttl_secs: 60 });
    const { response = {} } = await engine.ask(wireRequest());
    expect(response["quote_details"]).toMatchObject({ expiry: String(NOW_SECS + 60) });
  });

  test.each([
    ["30 s old", -30],
    ["30 s ahead", 30],
  ])("a request whose timestamp is %s gets a quote", async (_, off) => {
    const engine = await pricing.engine();
    const request = wireRequest({ challenge_timestamp: String(NOW_SECS + off) });
    expect(await engine.ask(request)).toMatchObject({ code: status.OK });
  });

  test("any price is written as 32 bytes, big-endian", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 2n ** 256n - 1n), (priceWei) => {
        const quote = {
          ...{ requester: OPERATOR, serviceId: 1n, jobIndex: 1, priceWei, timestamp: 1n, expiry: 2n },
          ...{ confidentiality: 0, inputsHash: hex(INPUTS) },
        } as JobQuote;
        const answer = { signed: { quote, signature: "0x" as const }, operator: OPERATOR as `0x${string}` };
        const { price } = toResponse({
          ...answer,
          proofOfWork: Buffer.alloc(48),
          settlement: undefined,
        }).quote_details;
        expect(price).toHaveLength(32);
        expect([...price].reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)).toBe(priceWei);
      }),
    );
  });
});

describe("resource-exhausted", () => {
  const pricing = usePricing();

  test("a request of more than 16 KiB is refused as RESOURCE_EXHAUSTED", async () => {
    const engine = await pricing.engine();
    const { code } = await engine.ask(wireRequest({ inputs_hash: Buffer.alloc(17_000) }));
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
  });
});

describe("unavailable", () => {
  const redis = useOwnRedis();
  const pricing = usePricing({ redis });
  const proxy = useRedisProxy(redis);

  test("a request that requires a TEE is refused as UNAVAILABLE", async () => {
    const engine = await pricing.engine();
    expect(await engine.ask(wireRequest({ require_tee: true }))).toEqual({
      code: status.UNAVAILABLE,
      details: expect.stringMatching(/^require_tee: /),
    });
  });

  test("while Redis is unavailable a request and health are UNAVAILABLE at once, and both recover with it", async () => {
    const engine = await pricing.engine();
    const request = wireRequest();
    const first = await engine.ask(request);
    await redis.server.kill("SIGKILL");
    const refused = { code: status.UNAVAILABLE, details: "Quotes are unavailable" };
    await eventually("it is refused", async () => (await engine.ask(wireRequest())).code !== status.OK);
    const startedAt = performance.now();
    expect(await engine.ask(wireRequest())).toEqual(refused);
    expect(performance.now() - startedAt).toBeLessThan(2500);
    const health = async () =>
      (await engine.client.call("grpc.health.v1.Health", "Check", { service: ENGINE })).response?.["status"];
    await eventually("it is not healthy", async () => (await health()) === "NOT_SERVING");
    // Refusals that need no Redis are still given.
    expect(await engine.ask(wireRequest({ requester: Buffer.alloc(20) }))).toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
    expect(engine.log.events.filter(({ event }) => event === "quote.issued")).toHaveLength(1);
    await redis.server.restart();
    // Redis was killed, and has lost no write.
    const again = await eventually("Redis is back", async () => {
      const asked = await engine.ask(request);
      return asked.code === status.OK ? asked : undefined;
    });
    expect(again).toEqual(first);
    await eventually("it is healthy", async () => (await health()) === "SERVING");
    expect(await engine.ask(wireRequest())).toMatchObject({ code: status.OK });
  });

  test("before Redis was first reached a request is refused as UNAVAILABLE", async () => {
    const engine = await pricing.engine({ redisUrl: "redis://127.0.0.1:1", early: true });
    expect(engine.service.readiness().ready).toBe(false);
    expect(await engine.ask(wireRequest())).toMatchObject({ code: status.UNAVAILABLE });
  });

  const faults = [
    ["loses a reply", "lose-reply"],
    ["loses a command", "lose-command"],
    ["hangs", "hang"],
  ] as const;
  test.each(sample(faults))(
    "a request during which Redis %s is UNAVAILABLE in time, and its repeat gets the one stored quote",
    async (_, kind) => {
      let now = NOW_SECS * 1000;
      const clock = () => now;
      const engine = await pricing.engine({ redisUrl: proxy.url, clock });
      const replica = await pricing.engine({ clock });
      await engine.ask(wireRequest());
      let faults = 0;
      // Other scripts, such as those of the process report, pass.
      proxy.onCommand = ([name, ...words]) => {
        if (!/^eval/i.test(name ?? "") || !words.some((word) => word.includes(":pricing:proof:")))
          return undefined;
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
      expect(await replica.ask({ ...request, inputs_hash: INPUTS })).toEqual(answer);
    },
  );
});
