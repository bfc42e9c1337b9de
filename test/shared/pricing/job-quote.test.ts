import fc from "fast-check";
import { hashTypedData } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { keccak256Hex } from "../../../shared/chain/encoding.ts";
import { createSigner, recoverAddress } from "../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../shared/chain/typed-data.ts";
import {
  decodeQuoteHeader,
  encodeQuoteHeader,
  type JobQuote,
  jobQuoteDigest,
} from "../../../shared/pricing/job-quote.ts";

const DOMAIN = {
  name: "TangleQuote",
  version: "1",
  chainId: 31337,
  verifyingContract: "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF",
} as const;

const TYPES = {
  JobQuoteDetails: [
    { name: "requester", type: "address" },
    { name: "serviceId", type: "uint64" },
    { name: "jobIndex", type: "uint8" },
    { name: "price", type: "uint256" },
    { name: "timestamp", type: "uint64" },
    { name: "expiry", type: "uint64" },
    { name: "confidentiality", type: "uint8" },
    { name: "inputsHash", type: "bytes32" },
  ],
} as const;

const KNOWN: JobQuote = {
  requester: "0x000000000000000000000000000000000000beef",
  serviceId: 42n,
  jobIndex: 3,
  priceWei: 10n ** 18n,
  timestamp: 1_700_000_000n,
  expiry: 1_700_003_600n,
  confidentiality: 0,
  inputsHash: keccak256Hex(new Uint8Array()),
};

const digestOf = (quote: JobQuote) =>
  `0x${Buffer.from(jobQuoteDigest(domainSeparator(DOMAIN), quote)).toString("hex")}`;

const hexOf = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((b) => `0x${Buffer.from(b).toString("hex")}` as const);
const uint = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n });

const anyQuote: fc.Arbitrary<JobQuote> = fc.record({
  requester: hexOf(20),
  serviceId: uint(64),
  jobIndex: uint(8).map(Number),
  priceWei: uint(256),
  timestamp: uint(64),
  expiry: uint(64),
  confidentiality: uint(8).map(Number),
  inputsHash: hexOf(32),
});

test("a quote has its known digest", () => {
  expect(digestOf(KNOWN)).toBe("0x9bd02b8b280e84cda6136def5cae3eb19e0c5ab5bd4619a0cad56bc2c4f15a11");
});

test("every quote has the same digest as in viem", () => {
  fc.assert(
    fc.property(anyQuote, (quote) => {
      const { priceWei: price, ...rest } = quote;
      const message = { ...rest, price };
      const theirs = hashTypedData({ domain: DOMAIN, types: TYPES, primaryType: "JobQuoteDetails", message });
      expect(digestOf(quote)).toBe(theirs);
    }),
  );
});

test("a signature equals that of viem with the same key, and recovers its signer", async () => {
  await fc.assert(
    fc.asyncProperty(hexOf(32), hexOf(32), async (key, digest) => {
      const signer = createSigner(key);
      const signature = `0x${signer.sign(Buffer.from(digest.slice(2), "hex")).toString("hex")}`;
      const account = privateKeyToAccount(key);
      expect(signature).toBe(await account.sign({ hash: digest }));
      expect(signer.address).toBe(account.address.toLowerCase());
      expect(recoverAddress(Buffer.from(digest.slice(2), "hex"), signature)).toBe(signer.address);
    }),
    { numRuns: 25 },
  );
});

test("a quote can be read from its header without a change", () => {
  fc.assert(
    fc.property(anyQuote, hexOf(65), (quote, signature) => {
      const decoded = decodeQuoteHeader(encodeQuoteHeader({ quote, signature }));
      expect(decoded).toEqual({ ok: true, signed: { quote, signature } });
    }),
  );
});

test.each([
  ["no base64", "{}", /the quote/],
  ["no JSON", Buffer.from("nothing").toString("base64"), /the quote/],
  ["null", Buffer.from("null").toString("base64"), /the quote/],
  ["no details", Buffer.from("{}").toString("base64"), /details/],
  ["a number for an integer", withDetail("price", 5), /details\.price/],
  ["a leading zero", withDetail("price", "05"), /details\.price.*decimal/],
  ["more than 64 bits", withDetail("expiry", String(2n ** 64n)), /details\.expiry.*too large/],
  ["a job index over 255", withDetail("job_index", "256"), /details\.job_index.*too large/],
  ["a short requester", withDetail("requester", "0xbeef"), /details\.requester.*40 hex/],
  ["a field nobody knows", withDetail("tip", "1"), /details/],
])("a header with %s is refused as a quote, and the answer names the place", (_what, header, problem) => {
  expect(decodeQuoteHeader(header)).toEqual({ ok: false, problem: expect.stringMatching(problem) });
});

function withDetail(name: string, value: unknown): string {
  const encoded = encodeQuoteHeader({ quote: KNOWN, signature: `0x${"11".repeat(65)}` });
  const json = JSON.parse(Buffer.from(encoded, "base64").toString());
  json.details[name] = value;
  return Buffer.from(JSON.stringify(json)).toString("base64");
}
