import { generatePrivateKey } from "viem/accounts";
import type { DevAccount } from "../../../services/dev/chain/chain.ts";
import { keccak256Hex } from "../../../shared/chain/encoding.ts";
import { createSigner } from "../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../shared/chain/typed-data.ts";
import { encodeQuoteHeader, type JobQuote, jobQuoteDigest } from "../../../shared/pricing/job-quote.ts";
import { PRICE, type TestX402Options } from "../../fixtures/x402.ts";

/** Operator whose quotes the gateways of these tests accept. */
export const operator = createSigner(generatePrivateKey());
export const DOMAIN = {
  name: "TangleQuote",
  version: "1",
  chainId: 31337,
  verifyingContract: "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF",
};
/** Half of the list price: 1.60 USDC. */
export const QUOTED_WEI = 500_000_000_000_000n;
export const QUOTED = PRICE / 2n;

export const honouringQuotes: Partial<TestX402Options> = {
  prices: { "7": "1000000000000000", "8": "1000000000000000" },
  x402: {
    quote_operators: [operator.address],
    quote_domain: { chain_id: DOMAIN.chainId, verifying_contract: DOMAIN.verifyingContract },
  },
};

const now = () => BigInt(Math.floor(Date.now() / 1000));

/** Makes a quote for job 7 of service 1 with the body "hello", valid for five minutes. */
export function quoteOf(requester: DevAccount, change: Partial<JobQuote> = {}): JobQuote {
  return {
    requester: requester.address.toLowerCase() as `0x${string}`,
    serviceId: 1n,
    jobIndex: 7,
    priceWei: QUOTED_WEI,
    timestamp: now(),
    expiry: now() + 300n,
    confidentiality: 0,
    inputsHash: keccak256Hex(Buffer.from("hello")),
    ...change,
  };
}

export type SignedQuote = { header: Record<string, string>; digest: string };

export function signQuote(quote: JobQuote, { by = operator, domain = DOMAIN } = {}): SignedQuote {
  const digest = jobQuoteDigest(domainSeparator(domain), quote);
  const signature = `0x${by.sign(digest).toString("hex")}` as const;
  return {
    header: { "X-PLATFORM-QUOTE": encodeQuoteHeader({ quote, signature }) },
    digest: `0x${Buffer.from(digest).toString("hex")}`,
  };
}
