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
import { AlreadySpent } from "./already-spent.ts";
import type { AcceptedPayment } from "./header.ts";
import { createTokenWatch, type TokenWatch } from "./token-watch.ts";

const RPC_TIMEOUT_MS = 5000;
/** A node that has not told its head for this long is away; it is asked every two seconds. */
const STALE_MS = 15_000;
/** A key without money can ask for any number of reads: so many are under way at once at one node. */
const READS_MAX = 64;
const READS_WAITING_MAX = 1024;
const REFUSED_MS = 2000;

/** The chain of a token, and how its contract is read. */
export type TokenChain = {
  chain: Chain;
  /** Of a token of EIP-3009. */
  eventOrder: EventOrder | undefined;
  /** Whether a call is queued only once the receipt of its transaction shows the payment. */
  wantsReceipt: boolean;
  watch: TokenWatch;
  /** For reads that any stranger can ask for. */
  turns: FairLimit;
};

/** The chain that decides what became of a payment, or why there is none to ask. */
export type PaymentChain =
  | TokenChain
  /** No node of the token's chain is configured: the facilitator's word is the last. */
  | "trusted"
  /** The token is not in the configuration any more: nobody can be asked. */
  | "unknown";

type TokenName = { network: string; asset: string };

/** What is known of a payment before it is claimed. */
export type Since = {
  /** No use of its authorization in an earlier block counts: it is unused here. 0 if there is no chain to ask. */
  block: bigint;
  /** When the head was read that says so (unix milliseconds). */
  at: number;
};

/** Settings of `createChain` that no configuration has. */
export type NodeTimes = Partial<Pick<ChainOptions, "timeoutMs" | "lookAgainMs">>;

type Options = { nodeTimes?: NodeTimes | undefined; clock: Clock; log: Logger };

/** The chains of the accepted tokens; tokens with the same node and depth share one. */
export class Chains {
  readonly #clock: Clock;
  readonly #shared = new Map<string, SharedChain>();
  readonly #byToken = new Map<string, PaymentChain>();
  readonly #watches: { token: AcceptedToken; watch: TokenWatch }[] = [];
  readonly #since;

  constructor(tokens: readonly AcceptedToken[], options: Options) {
    const { clock, log } = options;
    this.#clock = clock;
    this.#since = createShortCache<Since>({ keptMs: REFUSED_MS, keeps: keepFailures(isRefusal), clock });
    for (const token of tokens) {
      const shared = this.#sharedBy(token, options);
      // A token without a node is accepted only where facilitators are trusted.
      if (shared === undefined) {
        this.#byToken.set(nameOf(token), "trusted");
        continue;
      }
      const { chain, turns } = shared;
      const { event_order: eventOrder, settlement_proof } = token;
      const watch = createTokenWatch(token, chain, log);
      const wantsReceipt = settlement_proof === "receipt";
      this.#byToken.set(nameOf(token), { chain, eventOrder, wantsReceipt, watch, turns });
      this.#watches.push({ token, watch });
    }
  }

  /** Undefined if the token has no node. */
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
    const shared = this.#shared.get(key) ?? { network, chain: make(), turns: createTurns() };
    this.#shared.set(key, shared);
    return shared;
  }

  of(token: TokenName): PaymentChain {
    return this.#byToken.get(nameOf(token)) ?? "unknown";
  }

  /**
   * Asks the chain whether this payment could be made now. A refusal is believed for two seconds. `clientKey` is who asks: those who
   * wait for a node take turns. An address asks once for the same payment, on however many connections; its full line at the node refuses
   * no other address. Throws `payment.spent_elsewhere`, `payment.rejected` if the payer has not so much,
   * `payment.allowance_required`, `request.rate_limited`, and `payment.unavailable` if the node does not answer.
   */
  async sinceOf(signed: AcceptedPayment, clientKey: string): Promise<Since> {
    const its = this.of(signed.token);
    if (typeof its === "string") return { block: 0n, at: this.#clock() };
    const { value } = signed.decoded.authorization;
    return this.#since.get(`${signed.callId} ${signed.token.asset} ${value} ${clientKey}`, () =>
      askSince(its, signed, clientKey),
    );
  }

  /** Whether nothing is known to be wrong with the token. */
  isSound(token: TokenName): boolean {
    const its = this.of(token);
    return typeof its === "string" || its.watch.problems().length === 0;
  }

  /** Each chain, and whether its node answers; `since` says when a node that is away now told its head last. */
  available(): { network: string; ok: boolean; since?: string }[] {
    return [...this.#shared.values()].map(({ network, chain }) => ({
      network,
      ...answering(chain, this.#clock()),
    }));
  }

  /** Resolves once each token was checked, or its node found away. Rejects with `start.config_invalid` if one is not as configured. */
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

async function askSince(its: TokenChain, signed: AcceptedPayment, clientKey: string): Promise<Since> {
  const { token, payer, decoded } = signed;
  const { nonce, value } = decoded.authorization;
  const asset = token.asset as `0x${string}`;
  const authorization = { method: token.method.name, asset, from: payer, nonce };
  await its.watch.assertSound().catch(asUnavailable);
  const reading = its.turns.within(clientKey, () => its.chain.stateOf(authorization));
  const { isSpent, balance, allowance, head } = await reading.catch(asUnavailable);
  if (isSpent) throw new AlreadySpent(head.number);
  if (balance < value) throw unfunded(balance, value);
  if (allowance < value) throw unapproved(allowance, value);
  // For reorganisations: after one, the use may be in a block with a lower number.
  const depth = BigInt(its.chain.confirmations);
  return { block: head.number > depth ? head.number - depth : 0n, at: head.at };
}

type SharedChain = { network: string; chain: Chain; turns: FairLimit };

function createTurns(): FairLimit {
  return createFairLimit({
    max: READS_MAX,
    waitingMax: READS_WAITING_MAX,
    waitMs: RPC_TIMEOUT_MS,
    what: "reads of the chain",
    code: "payment.unavailable",
  });
}

function answering(chain: Chain, now: number): { ok: boolean; since?: string } {
  const head = chain.head();
  if (head === undefined) return { ok: false };
  if (now - head.at <= STALE_MS) return { ok: true };
  return { ok: false, since: new Date(head.at).toISOString() };
}

function nameOf({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

/** Only a refusal is kept: a good answer may be wrong the next moment, and a node that failed may answer then. */
function isRefusal(error: unknown): boolean {
  return !CODES[toAppError(error).code].retryable;
}

type UnavailableCode = "payment.unavailable" | "result.sign_in_unavailable";

/** Throws why a node has no answer now, or that too much of this address waits for it. */
export function asUnavailable(cause: unknown, code: UnavailableCode = "payment.unavailable"): never {
  if (cause instanceof AppError && cause.code === "request.rate_limited") throw cause;
  throw new AppError(code, { reason: messageOf(cause), retryAfterMs: 5000, cause });
}

function unfunded(balance: bigint, value: bigint): AppError {
  return new AppError("payment.rejected", {
    reason: `insufficient_funds: the payer has ${balance} of ${value} units`,
    publicDetail: "insufficient_funds: the payer's balance is smaller than the payment",
  });
}

function unapproved(allowance: bigint, value: bigint): AppError {
  return new AppError("payment.allowance_required", {
    reason: `Permit2 may move ${allowance} of ${value} units`,
    publicDetail: `permit2_allowance_required: approve Permit2 (${PERMIT2}) for the token once, then pay again`,
  });
}
