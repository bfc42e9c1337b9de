import { type Chain, type ChainOptions, createChain } from "../../../shared/chain/chain.ts";
import { chainIdOf } from "../../../shared/chain/encoding.ts";
import { PERMIT2 } from "../../../shared/chain/permit2.ts";
import type { EventOrder } from "../../../shared/chain/proof.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { AppError, messageOf, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { CODES } from "../../../shared/platform/errors/codes.ts";
import { createShortCache, keepFailures } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { createFairLimit, type FairLimit } from "../fair-limit.ts";
import type { SentApproval } from "../schemes/gas-sponsoring.ts";
import { AlreadySpent } from "./already-spent.ts";
import type { AcceptedPayment } from "./header.ts";
import { createTokenWatch, type TokenWatch } from "./token-watch.ts";

const RPC_TIMEOUT_MS = 5000;
/** A node counts as unavailable if it has not reported its newest block for this long. The gateway asks it every two seconds. */
const STALE_MS = 15_000;
/** Limit on concurrent reads of one node. A client needs no money to cause any number of reads. */
const READS_MAX = 64;
const READS_WAITING_MAX = 1024;
const REFUSED_MS = 2000;

/** Chain of a token, and the settings and limits for reading the token's contract there. */
export type TokenChain = {
  chain: Chain;
  /** Order in which the token's contract emits the two events of a payment. Only tokens with EIP-3009 have it. */
  eventOrder: EventOrder | undefined;
  /**
   * Whether a call is queued only after the receipt of its payment's transaction has shown the transfer. Otherwise the
   * facilitator's answer is enough to queue it.
   */
  wantsReceipt: boolean;
  watch: TokenWatch;
  /**
   * Limit on reads of the node that clients can cause without authentication. It shares the node fairly among their addresses.
   */
  readLimit: FairLimit;
};

/** The chain that decides whether a payment was made, or the reason why no chain can be read. */
export type PaymentChain =
  | TokenChain
  /** No node of the token's chain is configured, so the facilitator's answer is trusted. */
  | "trusted"
  /** The token is no longer in the configuration, so no node is known. */
  | "unknown";

type TokenName = { network: string; asset: string };

/** Findings of the check of a payment on the chain, before its claim. */
export type ChainCheck = {
  /**
   * Block from which a search for the payment must begin: the payment cannot be in an earlier block. 0 if no chain can be read.
   */
  block: bigint;
  /** Time at which `block` was read (unix ms). */
  at: number;
  /**
   * Approval of Permit2 that came with the payment and that the facilitator must send. Undefined if the payer's allowance for
   * Permit2 is large enough without it.
   */
  approval?: SentApproval | undefined;
};

/** Facts about a request that its check on the chain needs. */
export type CheckedRequest = {
  /** Rate-limit key of the client's address. */
  clientKey: string;
  /**
   * Counts the check of an approval against the client's limit on contract calls, because the token may call the payer's contract
   * for it. Throws `request.rate_limited`.
   */
  countApproval: () => void;
};

/** Settings of `createChain` that no configuration file has, but that tests set. */
export type NodeTimes = Partial<Pick<ChainOptions, "timeoutMs" | "recheckMs">>;

type Options = { nodeTimes?: NodeTimes | undefined; clock: Clock; log: Logger };

/** Chains of the accepted tokens. Tokens with the same node, `confirmations` and `void_depth` share one chain. */
export class Chains {
  readonly #clock: Clock;
  readonly #shared = new Map<string, SharedChain>();
  readonly #byToken = new Map<string, PaymentChain>();
  readonly #watches: { token: AcceptedToken; watch: TokenWatch }[] = [];
  readonly #checks;

  constructor(tokens: readonly AcceptedToken[], options: Options) {
    const { clock, log } = options;
    this.#clock = clock;
    this.#checks = createShortCache<ChainCheck>({
      keptMs: REFUSED_MS,
      keeps: keepFailures(isRefusal),
      clock,
    });
    for (const token of tokens) {
      const shared = this.#sharedBy(token, options);
      // The configuration requires `trust_facilitator` for a token without a node.
      if (shared === undefined) {
        this.#byToken.set(nameOf(token), "trusted");
        continue;
      }
      const { chain, readLimit } = shared;
      const { event_order: eventOrder, settlement_proof } = token;
      const watch = createTokenWatch(token, chain, log);
      const wantsReceipt = settlement_proof === "receipt";
      this.#byToken.set(nameOf(token), { chain, eventOrder, wantsReceipt, watch, readLimit });
      this.#watches.push({ token, watch });
    }
  }

  /**
   * Returns the token's chain. Tokens with the same node, `confirmations` and `void_depth` share one. Undefined if the token has
   * no node.
   */
  #sharedBy(token: AcceptedToken, { nodeTimes, clock, log }: Options): SharedChain | undefined {
    const { network, rpc_url: rpcUrl, confirmations, void_depth: voidDepth } = token;
    if (rpcUrl === undefined) return undefined;
    const key = `${network} ${confirmations} ${voidDepth} ${rpcUrl.reveal()}`;
    const chainId = chainIdOf(network);
    const make = () =>
      createChain({
        rpcUrl,
        chainId,
        confirmations,
        voidDepth,
        clock,
        log,
        timeoutMs: RPC_TIMEOUT_MS,
        ...nodeTimes,
      });
    const shared = this.#shared.get(key) ?? { network, chain: make(), readLimit: createReadLimit() };
    this.#shared.set(key, shared);
    return shared;
  }

  of(token: TokenName): PaymentChain {
    return this.#byToken.get(nameOf(token)) ?? "unknown";
  }

  /**
   * Checks on the chain that this payment could be made now. The limit on reads of the node is fair: if too many checks from one
   * client address wait, only that address is refused. Concurrent requests from one address for the same payment share one check.
   * A refusal is cached for two seconds. The approval that came with the payment is checked only if the payer's allowance is too
   * small without it.
   * Throws `payment.spent_elsewhere`, `payment.rejected` if the payer's balance is too small, `payment.allowance_required`,
   * `request.rate_limited`, and `payment.unavailable` if the node does not answer.
   */
  async checkOnChain(signed: AcceptedPayment, request: CheckedRequest): Promise<ChainCheck> {
    const { callId, token, approval } = signed;
    const tokenChain = this.of(token);
    if (typeof tokenChain === "string") return { block: 0n, at: this.#clock(), approval };
    const { value } = signed.decoded.authorization;
    const key = `${callId} ${token.asset} ${value} ${JSON.stringify(approval?.info)} ${request.clientKey}`;
    return this.#checks.get(key, () => readChainCheck(tokenChain, signed, request));
  }

  /** Whether no check has found a difference between the token's configuration and its contract. */
  isTokenValid(token: TokenName): boolean {
    const tokenChain = this.of(token);
    return typeof tokenChain === "string" || tokenChain.watch.problems().length === 0;
  }

  /**
   * Returns each chain, and whether its node answers. `since` is the time of the last answer of a node that no longer answers.
   */
  available(): { network: string; ok: boolean; since?: string }[] {
    return [...this.#shared.values()].map(({ network, chain }) => ({
      network,
      ...nodeState(chain, this.#clock()),
    }));
  }

  /**
   * Resolves once each token was compared with its contract, or its node did not answer. Rejects with `start.config_invalid` if
   * the configuration of a token does not match its contract.
   */
  async start(): Promise<void> {
    for (const { chain } of this.#shared.values()) chain.start();
    await Promise.all(this.#watches.map(({ watch }) => watch.start()));
    const problems = this.#watches.flatMap(({ token, watch }) =>
      watch.problems().map((problem) => `x402.toml: ${token.symbol} on ${token.network}: ${problem}`),
    );
    if (problems.length > 0) throw new AppError("start.config_invalid", { reason: problems.join("\n") });
  }

  async close(): Promise<void> {
    for (const { watch } of this.#watches) watch.close();
    await Promise.all([...this.#shared.values()].map(({ chain }) => chain.close()));
  }
}

async function readChainCheck(
  tokenChain: TokenChain,
  signed: AcceptedPayment,
  request: CheckedRequest,
): Promise<ChainCheck> {
  const { token, payer, decoded } = signed;
  const { nonce, value } = decoded.authorization;
  const asset = token.asset as `0x${string}`;
  const authorization = { method: token.method.name, asset, from: payer, nonce };
  await tokenChain.watch.assertValid().catch(throwUnavailable);
  const reading = tokenChain.readLimit.within(request.clientKey, () =>
    tokenChain.chain.stateOf(authorization),
  );
  const { isSpent, balance, allowance, head } = await reading.catch(throwUnavailable);
  if (isSpent) throw new AlreadySpent(head.number);
  if (balance < value) throw unfunded(balance, value);
  const approval = allowance < value ? await neededApproval(tokenChain, signed, request) : undefined;
  // After a reorganisation of the chain, the authorization may be used in a block with a lower number than the newest block has
  // now. So a search for its use must begin `confirmations` blocks earlier.
  const depth = BigInt(tokenChain.chain.confirmations);
  return { block: head.number > depth ? head.number - depth : 0n, at: head.at, approval };
}

/**
 * Returns the approval that came with a payment whose allowance is too small without it. Throws `payment.allowance_required` if
 * no approval came, or if it cannot be used.
 */
async function neededApproval(
  tokenChain: TokenChain,
  { token, payer, decoded, approval: sent }: AcceptedPayment,
  { clientKey, countApproval }: CheckedRequest,
): Promise<SentApproval> {
  if (sent === undefined) throw unapproved("the allowance of Permit2 is too small");
  const { name, approval } = sent;
  const transfer = { ...decoded.authorization, from: payer, asset: token.asset as `0x${string}` };
  countApproval();
  const asking = tokenChain.readLimit.within(clientKey, () =>
    tokenChain.chain.checkApproval({ transfer, approval }),
  );
  const verdict = await asking.catch(throwUnavailable);
  if (verdict.kind === "fits") return sent;
  throw unapproved(`the ${name} that was sent cannot be used: ${verdict.why}`);
}

type SharedChain = { network: string; chain: Chain; readLimit: FairLimit };

function createReadLimit(): FairLimit {
  return createFairLimit({
    max: READS_MAX,
    waitingMax: READS_WAITING_MAX,
    waitMs: RPC_TIMEOUT_MS,
    what: "reads of the chain",
    code: "payment.unavailable",
  });
}

function nodeState(chain: Chain, now: number): { ok: boolean; since?: string } {
  const head = chain.head();
  if (head === undefined) return { ok: false };
  if (now - head.at <= STALE_MS) return { ok: true };
  return { ok: false, since: new Date(head.at).toISOString() };
}

function nameOf({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

/**
 * Whether an error may be cached. Only the refusal of a payment may be. A failure of the node is not cached, because the node may
 * answer next time. A success is never cached either, because the payer may spend the money a moment later.
 */
function isRefusal(error: unknown): boolean {
  return !CODES[toAppError(error).code].retryable;
}

type UnavailableCode = "payment.unavailable" | "result.sign_in_unavailable";

/**
 * Throws the error for a client whose request needs a node that does not answer now. But if `cause` says that too many checks of
 * the client's address wait (`request.rate_limited`), throws `cause` itself.
 */
export function throwUnavailable(cause: unknown, code: UnavailableCode = "payment.unavailable"): never {
  if (cause instanceof AppError && cause.code === "request.rate_limited") throw cause;
  throw new AppError(code, { reason: messageOf(cause), retryAfterMs: 5000, cause });
}

function unfunded(balance: bigint, value: bigint): AppError {
  return new AppError("payment.rejected", {
    reason: `insufficient_funds: the payer has ${balance} of ${value} units`,
    publicDetail: "insufficient_funds: the payer's balance is smaller than the payment",
  });
}

function unapproved(why: string): AppError {
  return new AppError("payment.allowance_required", {
    reason: why,
    publicDetail: `permit2_allowance_required: ${why}; approve Permit2 (${PERMIT2}) for the token once, then pay again`,
  });
}
