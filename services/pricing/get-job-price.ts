import { createHash } from "node:crypto";
import type { JobPrice, PriceList } from "../../shared/config/job-pricing-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { toHex } from "../../shared/ethereum/encoding.ts";
import type { Signer } from "../../shared/ethereum/signatures.ts";
import { jobKey } from "../../shared/job-call/job-ids.ts";
import { type JobQuote, jobQuoteDigest, QUOTED_JOB_INDEX_MAX } from "../../shared/pricing/job-quote.ts";
import { CLOCK_SKEW_SECS, checkProof } from "../../shared/pricing/proof-of-work.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { GetJobPrice, JobPriceRequest, Settlement } from "./job-price.ts";
import type { ProofMemory } from "./proof-memory.ts";
import { invalid } from "./refusals.ts";

export type GetJobPriceDeps = {
  jobs: PriceList;
  signer: Signer;
  /** The EIP-712 domain's. */
  separator: string;
  powDifficulty: number;
  /** How long a quote is good. */
  quoteSecs: number;
  memory: ProofMemory;
  settle: (quote: JobQuote) => Settlement | undefined;
  clock: Clock;
};

/**
 * A request for a price from top to bottom; the checks are in the order that clients may rely on. Throws
 * `pricing.request_invalid`, `pricing.tee_unavailable`, `job.not_found` and `pricing.unavailable`. Until the proof of work
 * is checked nothing is asked of anybody.
 */
export function createGetJobPrice(deps: GetJobPriceDeps): GetJobPrice {
  const { jobs, signer, separator, powDifficulty, quoteSecs, memory, settle, clock } = deps;
  return async (request) => {
    const nowSecs = Math.floor(clock() / 1000);
    const requester = requesterOf(request);
    const inputsHash = inputsHashOf(request);
    assertFresh(request, nowSecs);
    const proof = proofOf(request, powDifficulty);
    if (request.requireTee) throw noTee();
    const { priceWei } = pricedJob(jobs, request);
    assertQuotable(request);

    const timestamp = BigInt(nowSecs);
    const terms = {
      serviceId: request.serviceId,
      jobIndex: request.jobIndex,
      priceWei,
      requester,
      inputsHash,
    };
    const quote = { ...terms, timestamp, expiry: timestamp + BigInt(quoteSecs), confidentiality: 0 };
    const signature = toHex(signer.sign(jobQuoteDigest(separator, quote)));

    const signed = await memory.firstIssued(proof, contentOf(request), { quote, signature });
    if (signed === undefined) throw invalid("proof_of_work", "was used for another request");
    const { proofOfWork } = request;
    return { signed, operator: signer.address, proofOfWork, settlement: settle(signed.quote) };
  };
}

function requesterOf({ requester }: JobPriceRequest): `0x${string}` {
  if (requester.length !== 20) throw invalid("requester", "must be 20 bytes");
  if (requester.every((byte) => byte === 0)) throw invalid("requester", "is the zero address");
  return toHex(requester);
}

function inputsHashOf({ inputsHash }: JobPriceRequest): `0x${string}` {
  if (inputsHash.length !== 32) throw invalid("inputs_hash", "must be 32 bytes");
  return toHex(inputsHash);
}

function assertFresh({ challengeTimestamp }: JobPriceRequest, nowSecs: number): void {
  if (challengeTimestamp === 0n) throw invalid("challenge_timestamp", "is missing");
  const ageSecs = BigInt(nowSecs) - challengeTimestamp;
  if (ageSecs > CLOCK_SKEW_SECS || -ageSecs > CLOCK_SKEW_SECS) {
    throw invalid("challenge_timestamp", `is not within ${CLOCK_SKEW_SECS} s of now`);
  }
}

function proofOf({ serviceId, challengeTimestamp, proofOfWork }: JobPriceRequest, difficulty: number) {
  const puzzle = { serviceId, timestamp: challengeTimestamp };
  const checked = checkProof(proofOfWork, puzzle, difficulty);
  if (!checked.ok) throw invalid("proof_of_work", checked.problem);
  return { ...puzzle, nonce: checked.nonce };
}

function noTee(): AppError {
  const detail = "require_tee: no trusted execution environment is available here";
  return AppError.public("pricing.tee_unavailable", detail);
}

function pricedJob(jobs: PriceList, request: JobPriceRequest): JobPrice {
  const job = jobs.get(jobKey(request));
  if (job !== undefined) return job;
  const detail = `No pricing configured for service ${request.serviceId} job index ${request.jobIndex}`;
  throw AppError.public("job.not_found", detail);
}

function assertQuotable({ jobIndex }: JobPriceRequest): void {
  if (jobIndex <= QUOTED_JOB_INDEX_MAX) return;
  throw invalid("job_index", `is above ${QUOTED_JOB_INDEX_MAX}, the highest that a quote can name`);
}

/** What a proof is used for: all of the request. Each part has one length by now, so they need no separators. */
function contentOf(request: JobPriceRequest): string {
  const numbers = Buffer.alloc(20);
  numbers.writeBigUInt64BE(request.serviceId, 0);
  numbers.writeUInt32BE(request.jobIndex, 8);
  numbers.writeBigUInt64BE(request.challengeTimestamp, 12);
  const { requester, inputsHash, proofOfWork } = request;
  const content = Buffer.concat([numbers, requester, inputsHash, proofOfWork]);
  return createHash("sha256").update(content).digest("hex");
}
