import type { IncomingMessage } from "node:http";
import { platformKeys } from "../../../shared/call/job-call.ts";
import { type JobIds, jobKey } from "../../../shared/call/job-ids.ts";
import { type Address, isAddress } from "../../../shared/chain/address.ts";
import { addressWord, keccak256Hex, selectorOf, uintWord } from "../../../shared/chain/encoding.ts";
import { createEthCall } from "../../../shared/chain/rpc.ts";
import { personalMessageDigest, recoverAddress } from "../../../shared/chain/signatures.ts";
import type { JobPolicy as PolicyToml, X402Toml } from "../../../shared/config/x402-toml.ts";
import { onlyHeaderValue } from "../../../shared/http/headers.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { createShortCache } from "../../../shared/platform/lifecycle/short-cache.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/platform/time/clock.ts";
import { createFairLimit } from "../fair-limit.ts";

type Restricted = { mode: "restricted_paid"; contract: Address; rpcUrl: Secret };

/** Rule that says who may buy a job: every client, no client, or a caller whom a contract permits (`restricted_paid`). */
export type JobPolicy =
  | { mode: "public_paid" }
  | { mode: "disabled" }
  | (Restricted & { authMode: "payer_is_caller" })
  | (Restricted & DelegatedPolicy);

type DelegatedPolicy = {
  authMode: "delegated_caller_signature";
  expirySecsMax: number;
  /** Whether the text that the caller signs must contain this gateway's URL, so that no other gateway accepts the proof. */
  boundProof: boolean;
};

/** Returns the policy of a job: its entry in x402.toml, or the default. */
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
      return {
        ...restricted,
        authMode: entry.auth_mode,
        expirySecsMax: entry.caller_expiry_secs_max,
        boundProof: entry.bound_caller_proof,
      };
  }
}

export type CallerRequest = {
  job: JobIds & { policy: JobPolicy };
  /** Request. It has the headers of the caller's proof, if the caller is not the payer. */
  req: IncomingMessage;
  body: Uint8Array;
  /** Payer recovered from the payment's signature. */
  payer: Address;
  /** Rate-limit key of the client's address, by which the slots for contract calls are shared fairly. */
  clientKey: string;
};

/** An authenticated caller whom the job's contract permits. */
export type AuthorizedCaller = {
  /** Lower case. */
  address: Address;
  /** Nonce of the caller's proof, and the time until which Redis remembers it (unix ms). The claim of the payment uses it up. */
  nonce?: { hash: string; keptUntil: number };
};

type CallerPolicyDeps = {
  /** Settings of the gateway. The text of a bound proof must contain the `public_url`. */
  x402: Pick<X402Toml, "public_url">;
  metadataPrefix: string;
  /** Clock of Redis. Redis itself forgets used nonces by this clock. */
  clock: Clock;
  isPermittedCaller: IsPermittedCaller;
};

/** Authorizes the callers of restricted jobs. */
export class CallerPolicy {
  readonly #deps: CallerPolicyDeps;

  constructor(deps: CallerPolicyDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves with the caller of a restricted job, or with undefined if every client may call the job. Throws `job.disabled`,
   * `caller.missing`, `caller.proof_invalid`, `caller.not_permitted` or `caller.check_unavailable`. It writes nothing: only the claim uses
   * up a nonce, so a dry-run uses up none.
   */
  async authorize(request: CallerRequest): Promise<AuthorizedCaller | undefined> {
    const { policy, serviceId } = request.job;
    switch (policy.mode) {
      case "public_paid":
        return undefined;
      case "disabled":
        throw new AppError("job.disabled", { reason: "its policy is disabled" });
      case "restricted_paid": {
        const caller = this.#authenticate(request, policy);
        const check = { policy, serviceId, caller: caller.address, clientKey: request.clientKey };
        if (await this.#deps.isPermittedCaller(check)) return caller;
        throw new AppError("caller.not_permitted", {
          reason: `${policy.contract} does not permit ${caller.address}`,
        });
      }
    }
  }

  #authenticate(request: CallerRequest, policy: JobPolicy & Restricted): AuthorizedCaller {
    const { x402, metadataPrefix, clock } = this.#deps;
    const { public_url: publicUrl } = x402;
    switch (policy.authMode) {
      case "payer_is_caller":
        return { address: request.payer.toLowerCase() as Address };
      case "delegated_caller_signature": {
        const { job, req, body } = request;
        const proof = readCallerProof(req, metadataPrefix);
        assertLasts(proof, clock(), policy.expirySecsMax);
        const { plain, bound } = signedTexts(proof, { job, body, publicUrl });
        const texts = policy.boundProof ? [bound] : [plain, bound];
        if (!texts.some((text) => isSignedByCaller(proof, text)))
          throw invalidProof(
            `the signature is not the caller's for this job, body, nonce and expiry${policy.boundProof ? ` at ${publicUrl}, as this job requires` : ""}`,
          );
        const keptUntil = proof.expirySecs * 1000 + CLOCK_CHANGE_MS;
        return { address: proof.caller, nonce: { hash: nonceHash(job, proof), keptUntil } };
      }
    }
  }
}

/**
 * Proof by which a caller lets someone else pay for its call. The caller signs it for one job and one body. It is valid only
 * once, because of its nonce, and until `expirySecs` (unix seconds).
 */
type CallerProof = { caller: Address; nonce: string; expirySecs: number; signature: string };

const NONCE = /^[!-~]{1,128}$/;
/**
 * Form of the expiry, in unix seconds. Leading zeros are refused: the signed text has the number without them, so it would not be
 * the text that was sent. At most 15 digits are accepted, because a double holds these exactly.
 */
const EXPIRY = /^(?:0|[1-9]\d{0,14})$/;

/**
 * Reads the four headers of a caller's proof. Throws `caller.missing` if one is absent, and `caller.proof_invalid` if one was
 * sent twice or is malformed. The signature is verified later (`isSignedByCaller`).
 */
function readCallerProof(req: IncomingMessage, metadataPrefix: string): CallerProof {
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

function requiredHeader(req: IncomingMessage, name: string): string {
  const found = onlyHeaderValue(req, name.toLowerCase());
  if ("value" in found) return found.value;
  if (found.problem === "repeated") throw invalidProof(`${name} was sent more than once`);
  throw AppError.public("caller.missing", `the header ${name} is missing`);
}

type SignedFor = { job: JobIds; body: Uint8Array; publicUrl: string };

/**
 * Returns the two texts that a caller may sign for this job, body, nonce and expiry. `plain` is accepted by any gateway, `bound`
 * only by this one. The nonce may contain colons. Even so, no two proofs have the same text, because the expiry follows the last
 * colon.
 */
function signedTexts({ nonce, expirySecs }: CallerProof, { job, body, publicUrl }: SignedFor) {
  const bodyHash = keccak256Hex(body).slice(2);
  const what = `${job.serviceId}:${job.jobIndex}:${bodyHash}:${nonce}:${expirySecs}`;
  return { plain: `x402-authorize:${what}`, bound: `x402-authorize@${publicUrl}:${what}` };
}

/** Whether the key of the caller that the headers name has signed this text (EIP-191 `personal_sign`). */
function isSignedByCaller({ caller, signature }: CallerProof, text: string): boolean {
  return recoverAddress(personalMessageDigest(text), signature) === caller;
}

function assertLasts({ expirySecs }: CallerProof, now: number, expirySecsMax: number): void {
  const leftMs = expirySecs * 1000 - now;
  if (leftMs <= 0) throw expiredProof();
  if (leftMs > expirySecsMax * 1000)
    throw invalidProof(`the caller's proof expires more than ${expirySecsMax} seconds ahead`);
}

/**
 * Returns the hash under which Redis remembers the nonce as used. In the hashed text, the nonce comes last, because it may
 * contain the separator.
 */
function nonceHash(ids: JobIds, { caller, nonce }: CallerProof): string {
  return sha256Hex(Buffer.from(`${jobKey(ids)}/${caller}/${nonce}`));
}

export function expiredProof(): AppError {
  return invalidProof("the caller's proof has expired");
}

function invalidProof(detail: string): AppError {
  return AppError.public("caller.proof_invalid", detail);
}

/**
 * Calls a contract at one node, at the newest block (`eth_call`). It has a deadline, and resolves with the returned bytes in hex.
 */
export type EthCall = (call: { to: Address; data: `0x${string}` }) => Promise<`0x${string}`>;

type PermissionCheck = {
  policy: { contract: Address; rpcUrl: Secret };
  serviceId: number;
  caller: Address;
  clientKey: string;
};

/** Resolves with whether the policy's contract permits the caller. Throws `caller.check_unavailable` if the contract gives no answer. */
export type IsPermittedCaller = (check: PermissionCheck) => Promise<boolean>;

/** Time for which a permission is cached. A revocation takes effect within this time. */
const PERMISSION_CACHE_MS = 30_000;
const CHECK_TIMEOUT_MS = 3000;
/**
 * Limits on concurrent contract calls. They are needed because a client can make up any number of callers, and each one causes a
 * call to the node.
 */
const CHECK_LIMITS = { max: 64, waitingMax: 256, waitMs: 3000 };

const SELECTOR = selectorOf("isPermittedCaller(uint64,address)");

type PermittedOptions = {
  /** Creates the function that makes calls at a node. It is called once for each node. */
  ethCallAt?: (rpcUrl: Secret) => EthCall;
  clock: Clock;
  callersMax?: number;
};

/**
 * Creates a function that calls the contract's `isPermittedCaller(uint64,address)`. Equal concurrent calls share one answer. Only
 * a "yes" is cached. If a "no" were cached too, strangers could fill the cache and evict the permitted callers from it. The error
 * of a failed call is replaced by one without its text and its cause: libraries put the RPC URL into both, and the URL may hold a
 * key.
 */
export function createIsPermittedCaller({
  ethCallAt = (rpcUrl) => createEthCall({ rpcUrl, timeoutMs: CHECK_TIMEOUT_MS }),
  clock,
  callersMax,
}: PermittedOptions): IsPermittedCaller {
  const permitted = createShortCache<boolean>({
    keptMs: PERMISSION_CACHE_MS,
    ...(callersMax !== undefined && { entriesMax: callersMax }),
    keeps: (outcome) => outcome.kind === "done" && outcome.result,
    clock,
  });
  const ethCalls = new Map<string, EthCall>();
  const checks = createFairLimit({
    ...CHECK_LIMITS,
    what: "permission checks",
    code: "caller.check_unavailable",
  });

  function ethCallOf(rpcUrl: Secret): EthCall {
    const url = rpcUrl.reveal();
    const ethCall = ethCalls.get(url) ?? ethCallAt(rpcUrl);
    ethCalls.set(url, ethCall);
    return ethCall;
  }

  async function callContract({ policy, serviceId, caller }: PermissionCheck): Promise<boolean> {
    const data: `0x${string}` = `0x${SELECTOR.slice(2)}${uintWord(BigInt(serviceId))}${addressWord(caller)}`;
    const work = async () => ethCallOf(policy.rpcUrl)({ to: policy.contract, data });
    const word = await work().catch((error: unknown) => {
      throw unavailable(safeReason(error));
    });
    return toAnswer(word);
  }

  return (check) => {
    const { clientKey } = check;
    return permitted.get(keyOf(check), () => checks.within(clientKey, () => callContract(check)));
  };
}

function keyOf({ policy, serviceId, caller }: PermissionCheck): string {
  return `${caller} ${serviceId} ${policy.contract} ${policy.rpcUrl.reveal()}`;
}

/** Decodes a contract's bool, a word of 0 or 1. An empty answer means that there is no contract at the address. */
function toAnswer(word: string): boolean {
  const bit = /^0x0{63}([01])$/.exec(word)?.[1];
  if (bit === undefined) throw unavailable("the contract's answer is not a bool");
  return bit === "1";
}

/**
 * Returns the text of an error, certainly without a URL. An AppError of shared/chain never has a URL in its text. Of any other
 * error, only the name is returned.
 */
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
