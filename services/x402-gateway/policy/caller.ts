import type { IncomingMessage } from "node:http";
import type { JobPolicy as PolicyToml, X402Toml } from "../../../shared/config/x402-toml.ts";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { type Address, isAddress } from "../../../shared/ethereum/address.ts";
import { keccak256Hex } from "../../../shared/ethereum/keccak.ts";
import { personalMessageDigest } from "../../../shared/ethereum/personal-message.ts";
import { recoverAddress } from "../../../shared/ethereum/recover.ts";
import { addressWord, uintWord } from "../../../shared/ethereum/words.ts";
import { onlyHeaderValue } from "../../../shared/http/headers.ts";
import { platformKeys } from "../../../shared/job-call/metadata.ts";
import { createConcurrencyLimit } from "../../../shared/lifecycle/concurrency-limit.ts";
import { type JobIds, jobKey } from "../../../shared/pricing/price-list.ts";
import type { Clock } from "../../../shared/time/clock.ts";

type Restricted = { mode: "restricted_paid"; contract: Address; rpcUrl: Secret };

/** Who may buy a job. A restricted one asks its contract whether it permits the caller. */
export type JobPolicy =
  | { mode: "public_paid" }
  | { mode: "disabled" }
  | (Restricted & { authMode: "payer_is_caller" })
  | (Restricted & { authMode: "delegated_caller_signature"; expirySecsMax: number });

/** The policy of every job: its entry in x402.toml, or the default. */
export function createPolicies(
  x402: Pick<X402Toml, "job_policies" | "default_invocation_mode">,
): (ids: JobIds) => JobPolicy {
  const configured = new Map(
    x402.job_policies.map((entry) => [
      jobKey({ serviceId: entry.service_id, jobIndex: entry.job_index }),
      toPolicy(entry),
    ]),
  );
  return (ids) => configured.get(jobKey(ids)) ?? { mode: x402.default_invocation_mode };
}

function toPolicy(entry: PolicyToml): JobPolicy {
  if (entry.invocation_mode !== "restricted_paid") return { mode: entry.invocation_mode };
  const restricted = { mode: entry.invocation_mode, contract: entry.contract, rpcUrl: entry.rpc_url };
  switch (entry.auth_mode) {
    case "payer_is_caller":
      return { ...restricted, authMode: entry.auth_mode };
    case "delegated_caller_signature":
      return { ...restricted, authMode: entry.auth_mode, expirySecsMax: entry.caller_expiry_secs_max };
  }
}

export type CallerRequest = {
  job: JobIds & { policy: JobPolicy };
  /** For the headers of a delegated caller. */
  req: IncomingMessage;
  body: Uint8Array;
  /** As recovered from the payment's signature. */
  payer: Address;
};

/** A caller who is proven and permitted. */
export type AuthorizedCaller = {
  /** In lower case. */
  address: Address;
  /** With a delegated proof: what the claim burns, and for how long it has to stay burned. */
  nonce?: { hash: string; ttlMs: number };
};

export type AuthorizeCaller = (request: CallerRequest) => Promise<AuthorizedCaller | undefined>;

type Deps = { metadataPrefix: string; clock: Clock; isPermittedCaller: IsPermittedCaller };

/** A burned nonce outlives its proof by what the clocks of the replicas may differ. */
const CLOCK_MARGIN_MS = 10 * 60_000;

/**
 * Tells who calls a restricted job, undefined where anybody may. Throws `job.disabled`, `caller.missing`,
 * `caller.proof_invalid`, `caller.not_permitted` or `caller.check_unavailable`. It writes nothing: a nonce is used up by
 * the claim alone, so that a dry-run costs none.
 */
export function createCallerPolicy({ metadataPrefix, clock, isPermittedCaller }: Deps): AuthorizeCaller {
  function proven(request: CallerRequest, policy: JobPolicy & Restricted): AuthorizedCaller {
    switch (policy.authMode) {
      case "payer_is_caller":
        return { address: request.payer.toLowerCase() as Address };
      case "delegated_caller_signature": {
        const proof = readCallerProof(request.req, metadataPrefix);
        const leftMs = timeLeftMs(proof, { now: clock(), expirySecsMax: policy.expirySecsMax });
        if (!isSignedByCaller(proof, { ...request.job, body: request.body }))
          throw invalidProof("the caller's signature is not theirs for this job, body, nonce and expiry");
        return { address: proof.caller, nonce: { hash: nonceHash(request.job, proof), ttlMs: leftMs } };
      }
    }
  }

  return async function authorizeCaller(request) {
    const { policy, serviceId } = request.job;
    switch (policy.mode) {
      case "public_paid":
        return undefined;
      case "disabled":
        throw new AppError("job.disabled", { reason: "its policy is disabled" });
      case "restricted_paid": {
        const caller = proven(request, policy);
        if (await isPermittedCaller({ policy, serviceId, caller: caller.address })) return caller;
        throw new AppError("caller.not_permitted", {
          reason: `${policy.contract} does not permit ${caller.address}`,
        });
      }
    }
  };
}

/** For how long the proof's nonce has to be remembered. */
function timeLeftMs(
  { expirySecs }: CallerProof,
  { now, expirySecsMax }: { now: number; expirySecsMax: number },
): number {
  const leftMs = expirySecs * 1000 - now;
  if (leftMs <= 0) throw invalidProof("the caller's proof has expired");
  if (leftMs > expirySecsMax * 1000)
    throw invalidProof(`the caller's proof expires more than ${expirySecsMax} seconds ahead`);
  return leftMs + CLOCK_MARGIN_MS;
}

/** The nonce stands last, since it may hold any separator. */
function nonceHash(ids: JobIds, { caller, nonce }: CallerProof): string {
  return sha256Hex(Buffer.from(`${jobKey(ids)}/${caller}/${nonce}`));
}

/** What a caller signs for: this body for this job, once (by the nonce), until `expirySecs` (unix seconds). */
export type CallerProof = { caller: Address; nonce: string; expirySecs: number; signature: string };

const NONCE = /^[!-~]{1,128}$/;
/** One form for each second, so that the text signed is the text sent; 15 digits survive a double. */
const EXPIRY = /^(?:0|[1-9]\d{0,14})$/;

/**
 * Reads the four headers of a delegated caller. Throws `caller.missing` where one is absent, `caller.proof_invalid` where
 * one came twice or is malformed. Nothing is proven yet: see `isSignedByCaller`.
 */
export function readCallerProof(req: IncomingMessage, metadataPrefix: string): CallerProof {
  const { caller: name } = platformKeys(metadataPrefix);
  const caller = requiredHeader(req, name);
  const nonce = requiredHeader(req, `${name}-NONCE`);
  const signature = requiredHeader(req, `${name}-SIG`);
  const expiry = requiredHeader(req, `${name}-EXPIRY`);
  if (!isAddress(caller)) throw invalidProof(`${name} must be an address: 0x and 40 hex digits`);
  if (!NONCE.test(nonce)) throw invalidProof(`${name}-NONCE must be 1 to 128 visible ASCII characters`);
  if (!EXPIRY.test(expiry)) throw invalidProof(`${name}-EXPIRY must be whole unix seconds, in decimal`);
  return { caller: caller.toLowerCase() as Address, nonce, signature, expirySecs: Number(expiry) };
}

export type SignedFor = JobIds & { body: Uint8Array };

/** Whether the claimed caller's key made the signature (EIP-191 `personal_sign`) over this job, body, nonce and expiry. */
export function isSignedByCaller(proof: CallerProof, signedFor: SignedFor): boolean {
  return recoverAddress(personalMessageDigest(textOf(proof, signedFor)), proof.signature) === proof.caller;
}

/** The nonce may hold colons: what follows the last one is the expiry, so no two proofs share a text. */
function textOf({ nonce, expirySecs }: CallerProof, { serviceId, jobIndex, body }: SignedFor): string {
  const bodyHash = keccak256Hex(body).slice(2);
  return `x402-authorize:${serviceId}:${jobIndex}:${bodyHash}:${nonce}:${expirySecs}`;
}

export function invalidProof(detail: string): AppError {
  return AppError.public("caller.proof_invalid", detail);
}

function requiredHeader(req: IncomingMessage, name: string): string {
  const found = onlyHeaderValue(req, name.toLowerCase());
  if ("value" in found) return found.value;
  if (found.problem === "repeated") throw invalidProof(`${name} came more than once`);
  throw AppError.public("caller.missing", `the header ${name} is missing`);
}

/** What is needed of a chain: `eth_call` at its head, which has a deadline and resolves with the bytes returned, in hex. */
export type ContractCalls = {
  ethCall(call: { to: Address; data: `0x${string}` }): Promise<`0x${string}`>;
};

export type CallerQuestion = {
  policy: { contract: Address; rpcUrl: Secret };
  serviceId: number;
  caller: Address;
};

/** Whether the policy's contract permits the caller. Throws `caller.check_unavailable` where it does not say. */
export type IsPermittedCaller = (question: CallerQuestion) => Promise<boolean>;

type Options = {
  /** Asked for once for each node. */
  chainAt: (rpcUrl: Secret) => ContractCalls;
  clock: Clock;
  callersMax?: number;
};

/** A revocation takes this long to be seen. */
const PERMITTED_MS = 30_000;
/** Anybody can make up callers, and each is a question: no more of the node's time than this is strangers'. */
const QUESTIONS_MAX = 64;

const SELECTOR = keccak256Hex(Buffer.from("isPermittedCaller(uint64,address)")).slice(0, 10);

/**
 * Asks `isPermittedCaller(uint64,address)`, once for all who ask the same at a time and not too much at once, and remembers
 * for seconds who is permitted; who is not is not remembered, so that strangers displace nobody. Failures are not remembered
 * either, and neither their text nor their cause is passed on: libraries put the RPC URL, which may hold a key, into both.
 */
export function createIsPermittedCaller({ chainAt, ...options }: Options): IsPermittedCaller {
  const permitted = createPermitted(options);
  const pending = new Map<string, Promise<boolean>>();
  const chains = new Map<string, ContractCalls>();
  const questions = createConcurrencyLimit({
    max: QUESTIONS_MAX,
    what: "questions about callers",
    code: "caller.check_unavailable",
  });

  function chainOf(rpcUrl: Secret): ContractCalls {
    const url = rpcUrl.reveal();
    const chain = chains.get(url) ?? chainAt(rpcUrl);
    chains.set(url, chain);
    return chain;
  }

  async function ask({ policy, serviceId, caller }: CallerQuestion): Promise<boolean> {
    const data: `0x${string}` = `0x${SELECTOR.slice(2)}${uintWord(BigInt(serviceId))}${addressWord(caller)}`;
    const work = async () => chainOf(policy.rpcUrl).ethCall({ to: policy.contract, data });
    const word = await work().catch((error: unknown) => {
      throw unavailable(safeReason(error));
    });
    return toAnswer(word);
  }

  async function askAndRemember(key: string, question: CallerQuestion): Promise<boolean> {
    const answer = await ask(question);
    if (answer) permitted.add(key);
    return answer;
  }

  function askOnce(key: string, question: CallerQuestion): Promise<boolean> {
    const leave = questions.enter();
    const asked = askAndRemember(key, question).finally(() => {
      leave();
      pending.delete(key);
    });
    pending.set(key, asked);
    return asked;
  }

  return async function isPermittedCaller(question) {
    const key = keyOf(question);
    if (permitted.has(key)) return true;
    return pending.get(key) ?? askOnce(key, question);
  };
}

/** Who is permitted, each until its time is over; beyond `callersMax` the oldest goes. */
function createPermitted({ clock, callersMax = 10_000 }: Omit<Options, "chainAt">) {
  const until = new Map<string, number>();
  return {
    has: (key: string): boolean => (until.get(key) ?? 0) > clock(),
    add(key: string): void {
      until.delete(key);
      until.set(key, clock() + PERMITTED_MS);
      const oldest = until.size > callersMax ? until.keys().next().value : undefined;
      if (oldest !== undefined) until.delete(oldest);
    },
  };
}

function keyOf({ policy, serviceId, caller }: CallerQuestion): string {
  return `${caller} ${serviceId} ${policy.contract} ${policy.rpcUrl.reveal()}`;
}

/** A contract's bool is a word of 0 or 1; no word at all means that there is no such contract. */
function toAnswer(word: string): boolean {
  const bit = /^0x0{63}([01])$/.exec(word)?.[1];
  if (bit === undefined) throw unavailable("the contract's answer is not a bool");
  return bit === "1";
}

/** The chain's own errors have no URL in them (shared/chain); of any other only the name is told. */
function safeReason(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? error.name : "it failed";
}

function unavailable(what: string): AppError {
  return new AppError("caller.check_unavailable", {
    reason: `isPermittedCaller: ${what}`,
    retryAfterMs: 1000,
  });
}
