import { createHash } from "node:crypto";
import { jobKey } from "../../shared/call/job-ids.ts";
import type { Address } from "../../shared/chain/address.ts";
import { toHex } from "../../shared/chain/encoding.ts";
import type { Signer } from "../../shared/chain/signatures.ts";
import type { JobPrice, PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { RefusalLog } from "../../shared/http/refusal-log.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import {
  type JobQuote,
  jobQuoteDigest,
  QUOTED_JOB_INDEX_MAX,
  type SignedJobQuote,
} from "../../shared/pricing/job-quote.ts";
import type { SettlementOption } from "../../shared/pricing/prices.ts";
import { CLOCK_SKEW_SECS, checkProof } from "../../shared/pricing/proof-of-work.ts";
import { CONTENTS_MAX, CONTENTS_OF_ADDRESS_MAX, type ProofMemory } from "./proof-memory.ts";

/** A client's request, not validated. */
export type JobPriceRequest = {
  serviceId: bigint;
  jobIndex: number;
  proofOfWork: Uint8Array;
  /** Unix seconds; 0 if the client sent none. */
  challengeTimestamp: bigint;
  requireTee: boolean;
  requester: Uint8Array;
  inputsHash: Uint8Array;
  /**
   * Address of the client. From each address, a proof of work is valid for only a few requests. All requests without an address
   * count as one address.
   */
  address?: string;
};

export type JobPriceAnswer = {
  signed: SignedJobQuote;
  operator: Address;
  /** The proof of work from the request. */
  proofOfWork: Uint8Array;
  /**
   * Tells how and where the quote can be paid by x402. Undefined if the engine was started without the data of a payment gateway.
   */
  settlement: Settlement | undefined;
};

export type Settlement = { options: readonly SettlementOption[]; endpoint: string };

export type GetJobPrice = (request: JobPriceRequest) => Promise<JobPriceAnswer>;

type Deps = {
  jobs: PriceList;
  signer: Signer;
  /** Separator of the EIP-712 domain for which quotes are signed. */
  separator: string;
  powDifficulty: number;
  /** Validity of a quote in seconds. */
  quoteSecs: number;
  memory: ProofMemory;
  settle: (quote: JobQuote) => Settlement | undefined;
  /** Clock for the times in a quote. Contracts compare these times with the chain's clock. */
  clock: Clock;
  /** Clock for the age of a proof. It is the clock of Redis, because Redis deletes the records of old proofs by it. */
  redisTime: Clock;
};

/**
 * Creates the function that answers a request for a price with a signed quote. Clients may rely on the order of its checks. Redis
 * is used last, after the check of the proof of work, so that a client must do the work before it can cause a write. Throws
 * `pricing.request_invalid`, `pricing.tee_unavailable`, `job.not_found` and `pricing.unavailable`.
 */
export function createGetJobPrice(deps: Deps): GetJobPrice {
  const { jobs, signer, separator, powDifficulty, quoteSecs, memory, settle, clock, redisTime } = deps;
  return async (request) => {
    const nowSecs = Math.floor(clock() / 1000);
    const requester = requesterOf(request);
    const inputsHash = inputsHashOf(request);
    assertFresh(request, Math.floor(redisTime() / 1000));
    const proof = proofOf(request, powDifficulty);
    if (request.requireTee) throw noTee();
    const { priceWei } = pricedJob(jobs, request);
    assertQuotable(request);

    const timestamp = BigInt(nowSecs);
    const quote: JobQuote = {
      requester,
      serviceId: request.serviceId,
      jobIndex: request.jobIndex,
      priceWei,
      timestamp,
      expiry: timestamp + BigInt(quoteSecs),
      confidentiality: 0,
      inputsHash,
    };
    const signature = toHex(signer.sign(jobQuoteDigest(separator, quote)));

    const { proofOfWork, address = "" } = request;
    const use = { content: contentOf(request), address };
    const signed = await memory.firstIssued(proof, use, { quote, signature });
    if (signed === undefined) throw invalid("proof_of_work", USED_UP);
    return { signed, operator: signer.address, proofOfWork, settlement: settle(signed.quote) };
  };
}

const USED_UP =
  `the proof of work was used for ${CONTENTS_OF_ADDRESS_MAX} requests from this address, or for ${CONTENTS_MAX} in all. ` +
  "Search from a random nonce: clients that start at the same nonce find the same proof";

/**
 * Answers a request over gRPC or HTTP with a price, and logs the outcome. For refusals with the same code, it logs at
 * most one line a second. Throws an AppError.
 */
export type AskPrice = (
  via: "grpc" | "http",
  read: () => JobPriceRequest | Promise<JobPriceRequest>,
) => Promise<JobPriceAnswer>;

export function createAskPrice(
  getJobPrice: GetJobPrice,
  { clock, log, refusals }: { clock: Clock; log: Logger; refusals: RefusalLog },
): AskPrice {
  return async (via, read) => {
    const startedAt = clock();
    let ids: object = {};
    try {
      const request = await read();
      ids = { serviceId: String(request.serviceId), jobIndex: request.jobIndex };
      const answer = await getJobPrice(request);
      const { requester, priceWei, expiry } = answer.signed.quote;
      const terms = { requester, priceWei: String(priceWei), expiry: Number(expiry) };
      log.info("quote.issued", { via, ...ids, ...terms, ms: clock() - startedAt });
      return answer;
    } catch (thrown) {
      const error = toAppError(thrown);
      refusals.note(error, { via, ...ids, ms: clock() - startedAt });
      throw error;
    }
  };
}

function requesterOf({ requester }: JobPriceRequest): `0x${string}` {
  if (requester.length !== 20)
    throw invalid("requester", `must be a non-zero 20-byte address, not ${requester.length} bytes`);
  if (requester.every((byte) => byte === 0))
    throw invalid("requester", "must be a non-zero 20-byte address, not the zero address");
  return toHex(requester);
}

function inputsHashOf({ inputsHash }: JobPriceRequest): `0x${string}` {
  if (inputsHash.length !== 32)
    throw invalid(
      "inputs_hash",
      `must be the 32-byte Keccak-256 of the inputs, not ${inputsHash.length} bytes`,
    );
  return toHex(inputsHash);
}

function assertFresh({ challengeTimestamp }: JobPriceRequest, nowSecs: number): void {
  if (challengeTimestamp === 0n) throw invalid("challenge_timestamp", "is missing");
  const ageSecs = BigInt(nowSecs) - challengeTimestamp;
  if (ageSecs > CLOCK_SKEW_SECS)
    throw invalid("challenge_timestamp", `is too old: more than ${CLOCK_SKEW_SECS} s`);
  if (-ageSecs > CLOCK_SKEW_SECS)
    throw invalid("challenge_timestamp", `is more than ${CLOCK_SKEW_SECS} s in the future`);
}

function proofOf({ serviceId, challengeTimestamp, proofOfWork }: JobPriceRequest, difficulty: number) {
  const puzzle = { serviceId, timestamp: challengeTimestamp };
  const checked = checkProof(proofOfWork, puzzle, difficulty);
  if (!checked.ok) throw invalid("proof_of_work", `the proof of work ${checked.problem}`);
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
  throw invalid("job_index", `must be at most ${QUOTED_JOB_INDEX_MAX} in a quote`);
}

/**
 * Hashes the values by which requests with the same proof of work differ. They need no separators, because at this point each has
 * a fixed length.
 */
function contentOf(request: JobPriceRequest): string {
  const numbers = Buffer.alloc(20);
  numbers.writeBigUInt64BE(request.serviceId, 0);
  numbers.writeUInt32BE(request.jobIndex, 8);
  numbers.writeBigUInt64BE(request.challengeTimestamp, 12);
  const { requester, inputsHash, proofOfWork } = request;
  const content = Buffer.concat([numbers, requester, inputsHash, proofOfWork]);
  return createHash("sha256").update(content).digest("hex");
}

/** Creates the error for an invalid request. It names the invalid field. */
export function invalid(field: string, problem: string): AppError {
  return AppError.public("pricing.request_invalid", `${field}: ${problem}`);
}
