import { createHash } from "node:crypto";
import type { Address } from "../../shared/chain/address.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { within } from "../../shared/platform/time/clock.ts";
import { decodeQuoteHeader, encodeQuoteHeader, type SignedJobQuote } from "../../shared/pricing/job-quote.ts";
import { CLOCK_SKEW_SECS, type Puzzle } from "../../shared/pricing/proof-of-work.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { optional, text } from "../../shared/redis/reply.ts";
import firstQuoteLua from "./first-quote.lua";

/*
 * Redis stores a hash for each proof. `quotes` is the number of distinct requests with the proof. `of <address>` is
 * how many of them came from that address. `quote <content>` is the header of the quote for the request with the hash
 * `content`.
 *
 * A proof is valid for several requests, because clients that search from nonce 0 in the same second find the same
 * proof. Each of these clients must get a quote.
 */

/**
 * Limits on the number of distinct requests with the same proof: from one address, and from all addresses. The first
 * limit is low, so that other addresses can use the proof too.
 */
export const CONTENTS_OF_ADDRESS_MAX = 8;
export const CONTENTS_MAX = 512;

/**
 * After its first use a proof stays fresh for at most twice the permitted clock skew. It is stored for twice that
 * time, in case Redis' clock is set back.
 */
const REMEMBERED_MS = 4 * CLOCK_SKEW_SECS * 1000;

const ANSWER_WITHIN_MS = 2000;
const USABLE_SECS = 5n;

const FIRST_QUOTE = defineScript({
  source: firstQuoteLua,
  keys: "proof",
  args: "content, address, header, replaced, keepMs",
  constants: { CONTENTS_MAX, CONTENTS_OF_ADDRESS_MAX },
  proof: "needed",
  reply: optional(text),
});

/** A proof of work that was checked. */
type Proof = Puzzle & { nonce: bigint };

/** A use of a proof: `content` is the hash of the request, `address` that of the client. */
type ProofUse = { content: string; address: string };

type Options = { partition: Partition; durable: DurableRedis; operator: Address; separator: string };

export type ProofMemory = ReturnType<typeof createProofMemory>;

/**
 * Stores the uses of each proof in Redis, so that all replicas of an engine know them. Other engines may use the same
 * Redis: their keys differ in the operator and the separator of the EIP-712 domain.
 */
export function createProofMemory({ partition: { redis, keys }, durable, operator, separator }: Options) {
  const firstQuote = FIRST_QUOTE.on(redis);

  /** Hashes the parts, which have fixed lengths and need no separators. */
  function hashOf({ serviceId, timestamp, nonce }: Proof): string {
    const bytes = Buffer.alloc(24);
    bytes.writeBigUInt64BE(serviceId, 0);
    bytes.writeBigUInt64BE(timestamp, 8);
    bytes.writeBigUInt64BE(nonce, 16);
    return createHash("sha256").update(operator).update(separator).update(bytes).digest("hex");
  }

  async function remember(
    proof: Proof,
    { content, address }: ProofUse,
    header: string,
    replaced: string,
  ): Promise<string | undefined> {
    const words = { content, address: addressKey(address), header, replaced, keepMs: REMEMBERED_MS };
    const asked = durable.write(() => firstQuote({ proof: keys.pricingProof(hashOf(proof)) }, words));
    const outcome = await within(ANSWER_WITHIN_MS, asked);
    if (outcome.kind === "done") return outcome.result;
    const error = outcome.kind === "failed" ? outcome.error : `no answer within ${ANSWER_WITHIN_MS} ms`;
    throw new AppError("pricing.unavailable", {
      reason: `the proof of work could not be stored: ${messageOf(error)}`,
      cause: error,
    });
  }

  return {
    /**
     * Returns the first quote that this engine issued for this proof and request, if it is still valid long enough.
     * Otherwise stores and returns `signed`. Returns undefined if too many different requests have used the proof.
     * Throws `pricing.unavailable` after 2 s if Redis does not answer.
     */
    async firstIssued(
      proof: Proof,
      use: ProofUse,
      signed: SignedJobQuote,
    ): Promise<SignedJobQuote | undefined> {
      const own = encodeQuoteHeader(signed);
      const first = await remember(proof, use, own, "");
      if (first === undefined) return undefined;
      const earlier = readIssued(first);
      if (isUsable(earlier, signed)) return earlier;
      const current = await remember(proof, use, own, first);
      return current === undefined ? undefined : readIssued(current);
    },
  };
}

/** Whether the earlier quote is valid for 5 more seconds, or for the lifetime of a new quote if that is shorter. */
function isUsable(
  { quote: earlier }: SignedJobQuote,
  { quote: { timestamp, expiry } }: SignedJobQuote,
): boolean {
  const lifetime = expiry - timestamp;
  return earlier.expiry - timestamp >= (lifetime < USABLE_SECS ? lifetime : USABLE_SECS);
}

function readIssued(header: string): SignedJobQuote {
  const decoded = decodeQuoteHeader(header);
  if (!decoded.ok) throw new Error(`a stored quote cannot be read: ${decoded.problem}`);
  return decoded.signed;
}
