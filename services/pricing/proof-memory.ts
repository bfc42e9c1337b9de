import { createHash } from "node:crypto";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Address } from "../../shared/ethereum/address.ts";
import { decodeQuoteHeader, encodeQuoteHeader, type SignedJobQuote } from "../../shared/pricing/job-quote.ts";
import { CLOCK_SKEW_SECS, type Puzzle } from "../../shared/pricing/proof-of-work.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { script } from "../../shared/redis/script.ts";
import { isNewer, VERSIONS } from "../../shared/redis/version.ts";
import { within } from "../../shared/time/clock.ts";

/** After its first use a proof stays fresh for at most twice the skew; twice that, in case the replicas' clocks differ. */
const REMEMBERED_MS = 4 * CLOCK_SKEW_SECS * 1000;

const ANSWER_WITHIN_MS = 2000;

const FIRST_OR_THIS = `
local first = redis.call('GET', KEYS[1])
if first then return first end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]`;

/** A proof of work that was checked. */
type Proof = Puzzle & { nonce: bigint };

type Options = { partition: Partition; durable: DurableRedis; operator: Address; separator: string };

export type ProofMemory = ReturnType<typeof createProofMemory>;

/**
 * Remembers in Redis what each proof was used for, so that all replicas of an engine know. Other engines may use the same
 * Redis: the operator and the separator of the EIP-712 domain tell them apart.
 */
export function createProofMemory({ partition: { redis, keys }, durable, operator, separator }: Options) {
  const firstOrThis = script(redis, FIRST_OR_THIS);

  /** Each part has one length, so they need no separators. */
  function hashOf({ serviceId, timestamp, nonce }: Proof): string {
    const bytes = Buffer.alloc(24);
    bytes.writeBigUInt64BE(serviceId, 0);
    bytes.writeBigUInt64BE(timestamp, 8);
    bytes.writeBigUInt64BE(nonce, 16);
    return createHash("sha256").update(operator).update(separator).update(bytes).digest("hex");
  }

  return {
    /**
     * The quote that this engine first issued for this proof: `signed`, or an earlier one for the same content. Undefined
     * if the proof was used for another content. Throws `pricing.unavailable` after 2 s if Redis does not answer.
     */
    async firstIssued(
      proof: Proof,
      content: string,
      signed: SignedJobQuote,
    ): Promise<SignedJobQuote | undefined> {
      const key = keys.pricingProof(hashOf(proof));
      const value = `${VERSIONS.proof} ${content} ${encodeQuoteHeader(signed)}`;
      const asked = durable.write(() => firstOrThis([key], [value, REMEMBERED_MS]));
      const outcome = await within(ANSWER_WITHIN_MS, asked);
      if (outcome.kind === "done") return readIssued(String(outcome.result), content);
      const error = outcome.kind === "failed" ? outcome.error : `no answer within ${ANSWER_WITHIN_MS} ms`;
      throw new AppError("pricing.unavailable", {
        reason: `the proof of work cannot be remembered: ${messageOf(error)}`,
        cause: error,
      });
    },
  };
}

function readIssued(value: string, content: string): SignedJobQuote | undefined {
  const [v, firstContent, header = ""] = value.split(" ");
  if (isNewer("proof", v)) {
    throw new AppError("pricing.unavailable", { reason: "a later release remembers this proof of work" });
  }
  if (firstContent !== content) return undefined;
  const decoded = decodeQuoteHeader(header);
  if (!decoded.ok) throw new Error(`a remembered quote cannot be read: ${decoded.problem}`);
  return decoded.signed;
}
