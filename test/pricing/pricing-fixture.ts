import {
  createPricingService,
  type PricingOptions,
  type PricingService,
} from "../../services/pricing/pricing.ts";
import type { JobPrice } from "../../shared/config/job-pricing-toml.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { toHex } from "../../shared/ethereum/encoding.ts";
import { domainSeparator } from "../../shared/ethereum/typed-data.ts";
import { listen } from "../../shared/http/listen.ts";
import type { JobQuote } from "../../shared/pricing/job-quote.ts";
import { randomNonce, solve } from "../../shared/pricing/proof-of-work.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { recordingLog } from "../support/recording-log.ts";
import { reflectedClient } from "../support/reflected.ts";

export const ENGINE = "pricing_engine.PricingEngine";

/** A key that everybody knows, and its address. */
export const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
export const OPERATOR = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

export const DOMAIN = {
  name: "TangleQuote",
  version: "1",
  chainId: 31337,
  verifyingContract: "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF",
};
export const SEPARATOR = domainSeparator(DOMAIN);

/** Little work, so that a test can do much of it. */
export const DIFFICULTY = 8;

/** Now, for an engine whose clock stands still. */
export const NOW_SECS = 1_700_000_000;

export const JOBS: readonly JobPrice[] = [
  { serviceId: 42, jobIndex: 3, priceWei: 10n ** 18n },
  { serviceId: 42, jobIndex: 255, priceWei: 2n ** 256n - 1n },
  { serviceId: 42, jobIndex: 256, priceWei: 1000n },
];

export type Wire = {
  service_id: string;
  job_index: number;
  proof_of_work: Buffer;
  challenge_timestamp: string;
  require_tee: boolean;
  requester: Buffer;
  inputs_hash: Buffer;
};

export const REQUESTER = Buffer.from("000000000000000000000000000000000000bEEF", "hex");
/** Keccak-256 of nothing. */
export const INPUTS = Buffer.from("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470", "hex");

/** A request that is in order, with its proof of work, but for what is said otherwise. */
export function wireRequest(otherwise: Partial<Wire> = {}, difficulty = DIFFICULTY): Wire {
  const service_id = otherwise.service_id ?? "42";
  const challenge_timestamp = otherwise.challenge_timestamp ?? String(NOW_SECS);
  const puzzle = { serviceId: BigInt(service_id), timestamp: BigInt(challenge_timestamp) };
  return {
    service_id,
    job_index: 3,
    proof_of_work: otherwise.proof_of_work ?? solve(puzzle, difficulty, randomNonce()),
    challenge_timestamp,
    require_tee: false,
    requester: REQUESTER,
    inputs_hash: INPUTS,
    ...otherwise,
  };
}

/** The quote in an answer over gRPC. */
export function toQuote(response: Record<string, unknown>): JobQuote {
  const details = response["quote_details"] as Record<string, string & Buffer>;
  const bytes = (field: string) => toHex(details[field] as Buffer);
  return {
    requester: bytes("requester"),
    serviceId: BigInt(String(details["service_id"])),
    jobIndex: Number(details["job_index"]),
    priceWei: BigInt(bytes("price")),
    timestamp: BigInt(String(details["timestamp"])),
    expiry: BigInt(String(details["expiry"])),
    confidentiality: Number(details["confidentiality"]),
    inputsHash: bytes("inputs_hash"),
  };
}

export type EngineOptions = {
  redisUrl: string;
  extend?: (service: PricingService) => PricingService;
  /** Do not wait for Redis. */
  early?: boolean;
} & Partial<PricingOptions>;

/** A pricing engine in this process, on real ports and real Redis, and a client that knows it by reflection. */
export async function startEngine({ redisUrl, extend = (same) => same, early, ...rest }: EngineOptions) {
  const log = recordingLog();
  const redis = connectForRequests(new Secret(redisUrl), log);
  const service = extend(
    createPricingService({
      jobs: JOBS,
      key: new Secret(KEY),
      domain: DOMAIN,
      powDifficulty: DIFFICULTY,
      quoteTtlSecs: 300,
      maxQuoteAgeSecs: 3600,
      redis,
      durability: "strict",
      log,
      clock: () => NOW_SECS * 1000 + 999,
      ...rest,
    }),
  );
  const grpc = await service.listenGrpc("127.0.0.1:0");
  const http = await listen(service.handler, "127.0.0.1:0");
  const client = reflectedClient(grpc.address);
  if (!early) await eventually("the engine is ready", () => service.readiness().ready);
  return {
    service,
    grpc,
    http,
    client,
    log,
    redis,
    ask: (request: Wire) => client.call(ENGINE, "GetJobPrice", request),
    async close() {
      client.close();
      await grpc.close(500);
      await http.close(100);
      service.close();
      redis.disconnect();
    },
  };
}

export type Engine = Awaited<ReturnType<typeof startEngine>>;
