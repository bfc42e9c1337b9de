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
 * Records the uses of proofs of work in Redis. Each proof has a Redis hash, with these fields:
 * - `quotes` is the number of distinct requests with the proof.
 * - `of <address>` is how many of these requests came from that address.
 * - `quote <content>` is the encoded quote for one request, where `content` is the SHA-256 hash of that request.
 * A proof is valid for several requests, because several clients may find the same proof: those that search from nonce 0 in the
 * same second. Each of these clients must get a quote.
 */

/**
 * Limits on the number of distinct requests with the same proof: from one address, and from all addresses. The first limit is
 * low, so that one client cannot use up a proof that clients at other addresses have also found.
 */
export const CONTENTS_OF_ADDRESS_MAX = 8;
export const CONTENTS_MAX = 512;

/**
 * Time for which the uses of a proof are stored. After its first use, a proof is accepted for at most twice the permitted clock
 * skew. It is stored for twice that time, because Redis' clock may be set back.
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

/** A request that uses a proof: `content` is the hash of the request, `address` is the address of the client. */
type ProofUse = { content: string; address: string };

type Options = { partition: Partition; durable: DurableRedis; operator: Address; separator: string };

export type ProofMemory = ReturnType<typeof createProofMemory>;

/**
 * Stores the uses of each proof in Redis, so that all replicas of an engine know them. Other engines may use the same Redis.
 * Their keys are different, because the hash in a key covers the engine's operator and the separator of its EIP-712 domain.
 */
export function createProofMemory({ partition: { redis, keys }, durable, operator, separator }: Options) {
  const firstQuote = FIRST_QUOTE.on(redis);

  /**
   * Hashes a proof together with the engine's operator and separator. These values have fixed lengths, so they need no separators
   * between them.
   */
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
     * Returns the first quote that this engine issued for this proof and request, if it is valid for some seconds more
     * (`isUsable`). So a repeated request gets the same quote. Otherwise stores and returns `signed`. Returns undefined if too
     * many different requests have used the proof. Throws `pricing.unavailable` if Redis does not answer within 2 s.
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

/**
 * Whether the earlier quote is still valid for 5 seconds. If a new quote would live less than that, it must be valid for that
 * lifetime.
 */
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
