import fc from "fast-check";
import { type Hex, parseSignature, recoverAddress, toFunctionSelector, toHex } from "viem";
import { beforeAll, describe, expect, test } from "vitest";
import { keccak256Hex } from "../../../shared/chain/encoding.ts";
import { createSigner } from "../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../shared/chain/typed-data.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { jobQuoteDigest } from "../../../shared/pricing/job-quote.ts";
import {
  DOMAIN,
  type Engine,
  KEY,
  OPERATOR,
  usePricing,
  type Wire,
  wireRequest,
} from "../../fixtures/pricing.ts";
import {
  type Outcome,
  type Redemption,
  requester,
  requestRedemption,
  stranger,
  useQuoteRedeemer,
} from "../../fixtures/quote-redeemer.ts";

const PRICE = 10n ** 15n;
const LIFE_SECS = 300n;
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const HALF_ORDER = ORDER / 2n;

type Quote = Redemption["quote"];

const pricing = usePricing();
const chain = useQuoteRedeemer({ chainId: DOMAIN.chainId });
const twin = useQuoteRedeemer({ chainId: DOMAIN.chainId + 1 });
let engine: Engine;
/** The engine's clock, which shows the time of the chain's latest block at the last request. */
let now = 0n;
let separator: string;

beforeAll(async () => {
  separator = domainSeparator(domain());
  engine = await start();
});

const domain = () => ({ ...DOMAIN, verifyingContract: chain.contract });

const start = (options: Parameters<typeof pricing.engine>[0] = {}) =>
  pricing.engine({
    domain: domain(),
    jobs: [
      { serviceId: 42, jobIndex: 3, priceWei: PRICE },
      { serviceId: 42, jobIndex: 100, priceWei: 100n },
      { serviceId: Number.MAX_SAFE_INTEGER, jobIndex: 255, priceWei: PRICE },
    ],
    quote_ttl_secs: Number(LIFE_SECS),
    clock: () => Number(now) * 1000,
    ...options,
  });

/** Counter that makes new inputs: equal quotes of the same second would be one quote. */
let quotes = 0;
const newInputs = (): Hex => toHex(`two plus ${++quotes}`);

/** Requests a quote on these inputs at the chain's time, and makes its redemption. */
async function quoted(request: Partial<Wire> = {}, { inputs = newInputs(), from = engine } = {}) {
  now = await chain.timestamp();
  return requestRedemption(from, inputs, { challenge_timestamp: String(now), ...request });
}

/** Returns the digest that the gateway and the engine compute for this quote. */
function digestOf({ price, ...quote }: Quote, of = separator): Hex {
  return toHex(jobQuoteDigest(of, { ...quote, priceWei: price }));
}

/** Returns the redemption with the operator's signature, which no client can make. */
function signed(redemption: Redemption, of = separator): Redemption {
  const digest = Buffer.from(digestOf(redemption.quote, of).slice(2), "hex");
  return { ...redemption, signature: toHex(createSigner(KEY).sign(digest)) };
}

function taken({ quote, value }: Redemption): Outcome {
  const { requester, serviceId, jobIndex } = quote;
  const at = { requester: expect.stringMatching(new RegExp(`^${requester}$`, "i")), serviceId, jobIndex };
  return { redeemed: { digest: digestOf(quote), ...at, paid: value } };
}

/** Redeems the changed quote and then the original, to prove that only the change was refused. */
async function refusedOnlyAs(changed: Redemption, original: Redemption): Promise<Outcome> {
  const outcome = await chain.redeem(changed);
  expect(await chain.redeem(original)).toEqual(taken(original));
  return outcome;
}

const NOT_SIGNED = { error: "NotSignedByOperator", args: [expect.stringMatching(/^0x[0-9a-fA-F]{40}$/)] };

test("a quote of GetJobPrice redeems on chain once", async () => {
  const quote = await quoted();
  const before = await chain.balance();
  expect(await chain.redeem(quote)).toEqual(taken(quote));
  const again = { error: "AlreadyRedeemed", args: [digestOf(quote.quote)] };
  expect([await chain.redeem(quote), await chain.redeem(quote)]).toEqual([again, again]);
  expect((await chain.balance()) - before).toBe(PRICE);
});

test("a quote that is sent twice in one block is redeemed once", async () => {
  const quote = await quoted();
  const hashes = await chain.inOneBlock(async () => [await chain.send(quote), await chain.send(quote)]);
  expect(await Promise.all(hashes.map(chain.outcomeOf))).toEqual([
    taken(quote),
    { error: "AlreadyRedeemed", args: [digestOf(quote.quote)] },
  ]);
});

test("a quote that was requested several times with one proof of work can be redeemed once", async () => {
  now = await chain.timestamp();
  const { proof_of_work, challenge_timestamp } = wireRequest({ challenge_timestamp: String(now) });
  const inputs = newInputs();
  const first = await quoted({ proof_of_work, challenge_timestamp }, { inputs });
  expect(await chain.redeem(first)).toEqual(taken(first));
  const again = await quoted({ proof_of_work, challenge_timestamp }, { inputs });
  expect(again).toEqual(first);
  expect(await chain.redeem(again)).toMatchObject({ error: "AlreadyRedeemed" });
});

test("a quote that was requested twice in one second can be redeemed once, because equal quotes are the same quote", async () => {
  const inputs = newInputs();
  const [one, two] = [await quoted({}, { inputs }), await quoted({}, { inputs })];
  expect(two).toEqual(one);
  expect(await chain.redeem(one)).toEqual(taken(one));
  await chain.nextBlockAt((await chain.timestamp()) + 1n);
  expect(await chain.redeem(two)).toMatchObject({ error: "AlreadyRedeemed" });
  const later = await quoted({}, { inputs });
  expect(await chain.redeem(later)).toEqual(taken(later));
});

const REDEEMED = [
  ["the largest job and service there can be", Number.MAX_SAFE_INTEGER, 255, undefined],
  ["the lowest price the chain takes", 42, 100, undefined],
  ["no inputs", 42, 3, "0x"],
  ["many inputs", 42, 3, `0x${"00ff".repeat(2000)}`],
] as const;
test.each(REDEEMED)("a quote redeems on chain with %s", async (_, serviceId, job_index, inputs) => {
  const request = { service_id: String(serviceId), job_index };
  const quote = await quoted(request, inputs && { inputs });
  expect(await chain.redeem(quote)).toEqual(taken(quote));
});

test("a quote can be redeemed in the second of its expiry, and not one second later", async () => {
  const [last, late] = [await quoted(), await quoted()];
  const { expiry } = last.quote;
  expect(late.quote.expiry).toBe(expiry);
  expect(expiry).toBe(now + LIFE_SECS);
  await chain.nextBlockAt(expiry);
  expect(await chain.redeem(last)).toEqual(taken(last));
  await chain.nextBlockAt(expiry + 1n);
  expect(await chain.redeem(late)).toEqual({ error: "QuoteExpired", args: [expiry + 1n, expiry] });
  const prolonged = { ...late, quote: { ...late.quote, expiry: expiry + LIFE_SECS } };
  expect(await chain.redeem(prolonged)).toEqual(NOT_SIGNED);
});

describe("the digest of a quote is the same on chain", () => {
  const uint = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n });
  const hex = (length: number) =>
    fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => toHex(bytes));

  test("the digest of any quote is the same on chain", async () => {
    const anyQuote = fc.record<Quote>({
      requester: hex(20),
      serviceId: uint(64),
      jobIndex: uint(8).map(Number),
      price: uint(256),
      timestamp: uint(64),
      expiry: uint(64),
      confidentiality: uint(8).map(Number),
      inputsHash: hex(32),
    });
    await fc.assert(
      fc.asyncProperty(anyQuote, async (quote) => {
        expect(await chain.digestOf(quote)).toBe(digestOf(quote));
      }),
      { numRuns: 25 },
    );
  });
});

describe("changed quotes", () => {
  /** Changes of each field. Except for the signature, everything matches the changed quote. */
  const changes: readonly (readonly [keyof Quote, string, (from: Redemption) => Partial<Redemption>])[] = [
    ["requester", "another, who sends it", () => ({ sender: stranger })],
    ["price", "a wei less, paid", ({ quote }) => paid(quote, PRICE - 1n)],
    ["expiry", "a later one", ({ quote }) => ({ quote: { ...quote, expiry: quote.expiry + 1n } })],
    ["jobIndex", "the next", ({ quote }) => ({ quote: { ...quote, jobIndex: 4 } })],
    ["serviceId", "the next", ({ quote }) => ({ quote: { ...quote, serviceId: 43n } })],
    ["serviceId", "the largest", ({ quote }) => ({ quote: { ...quote, serviceId: 2n ** 64n - 1n } })],
    ["jobIndex", "the largest", ({ quote }) => ({ quote: { ...quote, jobIndex: 255 } })],
    ["price", "the lowest there is, paid", ({ quote }) => paid(quote, 100n)],
    ["price", "a wei more, paid", ({ quote }) => paid(quote, PRICE + 1n)],
    [
      "timestamp",
      "an earlier one",
      ({ quote }) => ({ quote: { ...quote, timestamp: quote.timestamp - 1n } }),
    ],
    ["timestamp", "a later one", ({ quote }) => ({ quote: { ...quote, timestamp: quote.timestamp + 1n } })],
    ["expiry", "a sooner one", ({ quote }) => ({ quote: { ...quote, expiry: quote.expiry - 1n } })],
    ["expiry", "never", ({ quote }) => ({ quote: { ...quote, expiry: 2n ** 64n - 1n } })],
    ["confidentiality", "the next", ({ quote }) => ({ quote: { ...quote, confidentiality: 1 } })],
    ["inputsHash", "other inputs' own", ({ quote }) => on(quote, newInputs())],
  ];
  const paid = (quote: Quote, price: bigint) => ({ quote: { ...quote, price }, value: price });
  const on = (quote: Quote, inputs: Hex) => ({
    quote: { ...quote, inputsHash: keccak256Hex(Buffer.from(inputs.slice(2), "hex")) },
    inputs,
  });

  function change(original: Redemption, its: (from: Redemption) => Partial<Redemption>): Redemption {
    const changed = { ...original, ...its(original) };
    return { ...changed, quote: { ...changed.quote, requester: changed.sender.address } };
  }

  test("each field of a quote is among the tested changes", async () => {
    expect(new Set(changes.map(([field]) => field))).toEqual(new Set(Object.keys((await quoted()).quote)));
  });

  test.each(changes)("a quote cannot be redeemed once its %s is changed to %s", async (field, _, its) => {
    const original = await quoted();
    const changed = change(original, its);
    const differs = (Object.keys(original.quote) as (keyof Quote)[]).filter((key) => {
      return String(changed.quote[key]).toLowerCase() !== String(original.quote[key]).toLowerCase();
    });
    expect(differs).toEqual([field]);
    expect(await refusedOnlyAs(changed, original)).toEqual(NOT_SIGNED);
    // With the operator's signature it would be accepted, so nothing else was wrong with it.
    expect(await chain.redeem(signed(changed))).toEqual(taken(changed));
  });
});

describe("other signatures", () => {
  const bytesOf = (signature: Hex) => Buffer.from(signature.slice(2), "hex");
  const word = (value: bigint) => toHex(value, { size: 32 }).slice(2);

  function parts(signature: Hex) {
    const { r, s } = parseSignature(signature);
    return { r: BigInt(r), s: BigInt(s), v: Number(bytesOf(signature)[64]) };
  }
  const joined = ({ r, s, v }: ReturnType<typeof parts>): Hex =>
    `0x${word(r)}${word(s)}${word(BigInt(v)).slice(-2)}`;

  type Change = (from: ReturnType<typeof parts>) => Partial<ReturnType<typeof parts>>;
  const changes: readonly (readonly [string, Change, Outcome])[] = [
    ["another r", ({ r }) => ({ r: r ^ 1n }), NOT_SIGNED],
    [
      "the high s of its twin",
      ({ s, v }) => ({ s: ORDER - s, v: 55 - v }),
      { error: "SignatureHighS", args: [expect.any(String)] },
    ],
    ["an r of nothing", () => ({ r: 0n }), NOT_SIGNED],
    ["another s", ({ s }) => ({ s: s > 1n ? s - 1n : 2n }), NOT_SIGNED],
    ["an s of nothing", () => ({ s: 0n }), NOT_SIGNED],
    ["the largest low s", () => ({ s: HALF_ORDER }), NOT_SIGNED],
    ["the other v", ({ v }) => ({ v: 55 - v }), NOT_SIGNED],
    ["nothing but its v", () => ({ r: 0n, s: 0n }), NOT_SIGNED],
    ["v as 0 or 1", ({ v }) => ({ v: v - 27 }), { error: "SignatureV", args: [expect.any(Number)] }],
    ["a v of 29", () => ({ v: 29 }), { error: "SignatureV", args: [29] }],
    [
      "the smallest high s",
      () => ({ s: HALF_ORDER + 1n }),
      { error: "SignatureHighS", args: [`0x${word(HALF_ORDER + 1n)}`] },
    ],
  ];

  test.each(changes)("a quote cannot be redeemed with %s in its signature", async (_, its, error) => {
    const original = await quoted();
    const from = parts(original.signature);
    expect(joined(from)).toBe(original.signature);
    const signature = joined({ ...from, ...its(from) });
    expect(await refusedOnlyAs({ ...original, signature }, original)).toEqual(error);
  });

  test("a signature's malleable twin, which recovers the operator as well, cannot redeem a quote again", async () => {
    const original = await quoted();
    expect(await chain.redeem(original)).toEqual(taken(original));
    const { r, s, v } = parts(original.signature);
    const signature = joined({ r, s: ORDER - s, v: 55 - v });
    expect(signature).not.toBe(original.signature);
    const recovered = await recoverAddress({ hash: digestOf(original.quote), signature });
    expect(recovered.toLowerCase()).toBe(OPERATOR);
    expect(await chain.redeem({ ...original, signature })).toMatchObject({ error: "SignatureHighS" });
  });

  test.each([
    ["of nothing", () => Buffer.alloc(0)],
    ["without its v", (signature: Buffer) => signature.subarray(0, 64)],
    ["with one byte more", (signature: Buffer) => Buffer.concat([signature, Buffer.alloc(1)])],
  ])("a signature %s does not redeem its quote", async (_, cut) => {
    const original = await quoted();
    const bytes = cut(bytesOf(original.signature));
    const error = { error: "SignatureLength", args: [BigInt(bytes.length)] };
    expect(await refusedOnlyAs({ ...original, signature: toHex(bytes) }, original)).toEqual(error);
  });

  test("a signature with any bit changed does not redeem its quote", async () => {
    const original = await quoted();
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 65 * 8 - 1 }), async (bit) => {
        const bytes = bytesOf(original.signature);
        bytes[bit >> 3] = Number(bytes[bit >> 3]) ^ (1 << (bit & 7));
        const outcome = await chain.redeem({ ...original, signature: toHex(bytes) });
        expect(outcome).toMatchObject({
          error: expect.stringMatching(/^(?:NotSignedByOperator|SignatureV|SignatureHighS)$/),
        });
      }),
      { numRuns: 30 },
    );
    expect(await chain.redeem(original)).toEqual(taken(original));
  });

  test("the signature of another operator does not redeem a quote", async () => {
    const other = await start({ key: new Secret(`0x${"1".repeat(64)}`) });
    const quote = await quoted({}, { from: other });
    expect(await chain.redeem(quote)).toEqual({
      error: "NotSignedByOperator",
      args: [expect.stringMatching(new RegExp(other.service.operator, "i"))],
    });
  });

  test("no contract has the zero address as its operator, because a broken signature would recover it", async () => {
    await expect(chain.deployFor(`0x${"0".repeat(40)}`)).rejects.toThrow(toFunctionSelector("NoOperator()"));
  });
});

test("a quote cannot be redeemed by another sender", async () => {
  const original = await quoted();
  expect(await refusedOnlyAs({ ...original, sender: stranger }, original)).toEqual({
    error: "NotTheRequester",
    args: [stranger.address, requester.address],
  });
});

test.each([
  ["other inputs", () => newInputs()],
  ["no inputs", () => "0x"],
  ["one byte more", (from: Hex) => `${from}00`],
] as [string, (from: Hex) => Hex][])("a quote cannot be redeemed on %s", async (_, its) => {
  const original = await quoted();
  const inputs = its(original.inputs);
  const inputsHash = keccak256Hex(Buffer.from(inputs.slice(2), "hex"));
  expect(await refusedOnlyAs({ ...original, inputs }, original)).toEqual({
    error: "OtherInputs",
    args: [inputsHash, original.quote.inputsHash],
  });
});

test.each([
  ["nothing", 0n],
  ["a wei less", PRICE - 1n],
  ["a wei more", PRICE + 1n],
])("a quote cannot be redeemed for %s", async (_, value) => {
  const original = await quoted();
  expect(await refusedOnlyAs({ ...original, value }, original)).toEqual({
    error: "WrongPayment",
    args: [value, PRICE],
  });
});

test("a quote cannot be redeemed at a price below 100 wei, so the pricing engine refuses such a price", async () => {
  const least = await quoted({ job_index: 100 });
  const cheaper = signed({ ...least, quote: { ...least.quote, price: 99n }, value: 99n });
  expect(await chain.redeem(cheaper)).toEqual({
    error: "PriceTooLow",
    args: [99n],
  });
});

test("a quote cannot be redeemed at any time after its expiry", async () => {
  const quote = await quoted();
  const { expiry } = quote.quote;
  await chain.nextBlockAt(expiry + 86_400n);
  expect(await chain.redeem(quote)).toEqual({ error: "QuoteExpired", args: [expiry + 86_400n, expiry] });
});

test("a quote cannot be redeemed at another deployment of the contract on its chain", async () => {
  const elsewhere = await chain.deployFor();
  const quote = await quoted();
  expect(await chain.redeem(quote, elsewhere)).toEqual(NOT_SIGNED);
  expect(await chain.redeem(quote)).toEqual(taken(quote));
});

test("a quote cannot be redeemed at the same contract with the same address on another chain", async () => {
  expect(twin.contract).toBe(chain.contract);
  const quote = await quoted();
  expect(await twin.redeem(quote)).toEqual(NOT_SIGNED);
  expect(await chain.redeem(quote)).toEqual(taken(quote));
});

test.each([
  ["chain id", { chainId: DOMAIN.chainId + 1 }],
  ["contract", { verifyingContract: OPERATOR }],
  ["name", { name: "TangleQuotes" }],
  ["version", { version: "2" }],
])("a quote cannot be redeemed if the engine has another %s", async (_, other) => {
  const wrong = await start({ domain: { ...domain(), ...other } });
  const quote = await quoted({}, { from: wrong });
  expect(await chain.redeem(quote)).toEqual(NOT_SIGNED);
  // The operator signed it for the other domain; for this one the signature would differ.
  expect(signed(quote, domainSeparator({ ...domain(), ...other }))).toEqual(quote);
  expect(await chain.redeem(signed(quote))).toEqual(taken(quote));
});
