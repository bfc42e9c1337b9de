import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { type Chain, createChain } from "../../shared/ethereum/chain.ts";
import type { EventOrder } from "../../shared/ethereum/eip3009.ts";
import { chainIdOf } from "../../shared/ethereum/encoding.ts";
import { PERMIT2 } from "../../shared/ethereum/permit2.ts";
import { createFairLimit, type FairLimit } from "../../shared/lifecycle/fair-limit.ts";
import { createShortCache, keepFailures } from "../../shared/lifecycle/short-cache.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { AlreadySpent } from "./payment/already-spent.ts";
import type { AcceptedPayment } from "./payment/header.ts";
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

/**
 * Asks the chain whether this payment could be made now. A refusal is believed for two seconds. `party` is who asks: those who
 * wait for a node take turns. Throws `payment.spent_elsewhere`, `payment.rejected` if the payer has not so much,
 * `payment.allowance_required`, `request.rate_limited`, and `payment.unavailable` if the node does not answer.
 */
export type SinceOf = (signed: AcceptedPayment, party: string) => Promise<Since>;

export type Chains = {
  of(token: TokenName): PaymentChain;
  sinceOf: SinceOf;
  /** Whether nothing is known to be wrong with the token. */
  isSound(token: TokenName): boolean;
  /** Each chain, and whether its node answers; `since` says when a node that is away now told its head last. */
  available(): { network: string; ok: boolean; since?: string }[];
  /** Resolves once each token was checked, or its node found away. Rejects with `start.config_invalid` if one is not as configured. */
  start(): Promise<void>;
  close(): Promise<void>;
};

type Options = { clock: Clock; log: Logger };

/** The chains of the accepted tokens; tokens with the same node and depth share one. */
export function createChains({ accepted_tokens }: X402Toml, { clock, log }: Options): Chains {
  const shared = new Map<string, SharedChain>();
  const byToken = new Map<string, PaymentChain>();
  const watches: { token: AcceptedToken; watch: TokenWatch }[] = [];
  for (const token of accepted_tokens) {
    const { network, rpc_url: rpcUrl, confirmations, void_depth: voidDepth } = token;
    const name = nameOf(token);
    // Such a token is accepted only where facilitators are trusted.
    byToken.set(name, "trusted");
    if (rpcUrl === undefined) continue;
    const key = `${network} ${confirmations} ${voidDepth} ${rpcUrl.reveal()}`;
    const chainId = chainIdOf(network);
    const make = () =>
      createChain({ rpcUrl, chainId, confirmations, voidDepth, timeoutMs: RPC_TIMEOUT_MS, clock, log });
    const one = shared.get(key) ?? { network, chain: make(), turns: createTurns() };
    shared.set(key, one);
    const { event_order: eventOrder, settlement_proof } = token;
    const watch = createTokenWatch(token, one.chain, log);
    const wantsReceipt = settlement_proof === "receipt";
    byToken.set(name, { chain: one.chain, eventOrder, wantsReceipt, watch, turns: one.turns });
    watches.push({ token, watch });
  }
  const all = [...shared.values()];
  const of = (token: TokenName): PaymentChain => byToken.get(nameOf(token)) ?? "unknown";
  return {
    of,
    sinceOf: createSinceOf(of, clock),
    isSound: (token) => {
      const its = of(token);
      return typeof its === "string" || its.watch.problems().length === 0;
    },
    available: () => all.map(({ network, chain }) => ({ network, ...answering(chain, clock()) })),
    async start() {
      for (const { chain } of all) chain.start();
      await Promise.all(watches.map(({ watch }) => watch.start()));
      const problems = watches.flatMap(({ token, watch }) =>
        watch.problems().map((problem) => `x402.toml: ${token.symbol} on ${token.network}: ${problem}`),
      );
      if (problems.length > 0) throw new AppError("start.config_invalid", { reason: problems.join("\n") });
    },
    async close() {
      for (const { watch } of watches) watch.close();
      await Promise.all(all.map(({ chain }) => chain.close()));
    },
  };
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

/** An address asks once for the same payment, on however many connections. Its full line at the node refuses no other address. */
function createSinceOf(of: (token: TokenName) => PaymentChain, clock: Clock): SinceOf {
  const answers = createShortCache<Since>({ keptMs: REFUSED_MS, keeps: keepFailures(isRefusal), clock });

  async function ask(its: TokenChain, signed: AcceptedPayment, party: string): Promise<Since> {
    const { token, payer, decoded } = signed;
    const { nonce, value } = decoded.authorization;
    const { method, asset } = token;
    const authorization = { method, asset: asset as `0x${string}`, from: payer, nonce };
    await its.watch.assertSound().catch(asUnavailable);
    const reading = its.turns.within(party, () => its.chain.stateOf(authorization));
    const { isSpent, balance, allowance, head } = await reading.catch(asUnavailable);
    if (isSpent) throw new AlreadySpent(head.number);
    if (balance < value) throw unfunded(balance, value);
    if (allowance < value) throw unapproved(allowance, value);
    // For reorganisations: after one, the use may be in a block with a lower number.
    const depth = BigInt(its.chain.confirmations);
    return { block: head.number > depth ? head.number - depth : 0n, at: head.at };
  }

  return async function sinceOf(signed, party) {
    const its = of(signed.token);
    if (typeof its === "string") return { block: 0n, at: clock() };
    const { value } = signed.decoded.authorization;
    return answers.get(`${signed.callId} ${signed.token.asset} ${value} ${party}`, () =>
      ask(its, signed, party),
    );
  };
}

/** What is unused and paid for may be otherwise the next moment. */
function isRefusal(error: unknown): boolean {
  const { code } = toAppError(error);
  return ["payment.rejected", "payment.allowance_required", "payment.spent_elsewhere"].includes(code);
}

/** Throws why a node has no answer now, or that too much of this address waits for it. */
export function asUnavailable(cause: unknown): never {
  if (cause instanceof AppError && cause.code === "request.rate_limited") throw cause;
  throw new AppError("payment.unavailable", { reason: messageOf(cause), retryAfterMs: 5000, cause });
}

function unfunded(balance: bigint, value: bigint): AppError {
  return new AppError("payment.rejected", {
    reason: `insufficient_funds: the payer has ${balance} of ${value} units`,
    publicDetail: "insufficient_funds: the payer has less of the token than the payment is worth",
  });
}

function unapproved(allowance: bigint, value: bigint): AppError {
  return new AppError("payment.allowance_required", {
    reason: `Permit2 may move ${allowance} of ${value} units`,
    publicDetail: `permit2_allowance_required: approve Permit2 (${PERMIT2}) at the token, once, and pay again`,
  });
}
