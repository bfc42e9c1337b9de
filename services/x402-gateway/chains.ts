import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import { type Chain, createChain } from "../../shared/ethereum/chain.ts";
import { chainIdOf } from "../../shared/ethereum/encoding.ts";
import type { AuthorizationName } from "../../shared/ethereum/evidence.ts";
import type { EventOrder } from "../../shared/ethereum/proof.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { AcceptedPayment } from "./payment/header.ts";
import { createTokenWatch, type TokenWatch } from "./token-watch.ts";

const RPC_TIMEOUT_MS = 5000;
/** A node that has not told its head for this long is away; it is asked every two seconds. */
const STALE_MS = 15_000;

/** The chain of a token, and how its contract is read. */
export type TokenChain = {
  chain: Chain;
  eventOrder: EventOrder;
  /** Whether a call is queued only once the receipt of its transaction shows the payment. */
  wantsReceipt: boolean;
  watch: TokenWatch;
};

/** The chain that decides what became of a payment, or why there is none to ask. */
export type PaymentChain =
  | TokenChain
  /** No node of the token's chain is configured: the facilitator's word is the last. */
  | "trusted"
  /** The token is not in the configuration any more: nobody can be asked. */
  | "unknown";

type TokenName = { network: string; asset: string };

/**
 * A block before which no use of this payment's authorization counts: it is unused now, before it is claimed. 0 if there is no chain to
 * ask. Throws `payment.spent_elsewhere`, and `payment.unavailable` if the node does not answer.
 */
export type SinceOf = (signed: AcceptedPayment) => Promise<bigint>;

/** The authorization was used or cancelled before its payment came here: in this block or in an earlier one. */
export class AlreadySpent extends AppError {
  readonly block: bigint;

  constructor(block: bigint) {
    super("payment.spent_elsewhere", {
      reason: "the token says that the authorization is used or cancelled",
      publicDetail: "The nonce of this payment was used or cancelled before it came here. Sign a new one.",
    });
    this.block = block;
  }
}

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
    const one = shared.get(key) ?? { network, chain: make() };
    shared.set(key, one);
    const { event_order: eventOrder, settlement_proof } = token;
    const watch = createTokenWatch(token, one.chain, log);
    byToken.set(name, { chain: one.chain, eventOrder, wantsReceipt: settlement_proof === "receipt", watch });
    watches.push({ token, watch });
  }
  const all = [...shared.values()];
  const of = (token: TokenName): PaymentChain => byToken.get(nameOf(token)) ?? "unknown";
  return {
    of,
    sinceOf: ({ token, payer, decoded }) =>
      sinceIn(of(token), {
        asset: token.asset as `0x${string}`,
        from: payer,
        nonce: decoded.authorization.nonce,
      }),
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

type SharedChain = { network: string; chain: Chain };

function answering(chain: Chain, now: number): { ok: boolean; since?: string } {
  const head = chain.head();
  if (head === undefined) return { ok: false };
  if (now - head.at <= STALE_MS) return { ok: true };
  return { ok: false, since: new Date(head.at).toISOString() };
}

function nameOf({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

/** The depth is for reorganisations: after one, the use may be in a block with a lower number. */
async function sinceIn(its: PaymentChain, authorization: AuthorizationName): Promise<bigint> {
  if (typeof its === "string") return 0n;
  const readState = async () => {
    await its.watch.assertSound();
    return its.chain.stateOf(authorization);
  };
  const { isSpent, head } = await readState().catch((cause) => {
    throw new AppError("payment.unavailable", { reason: messageOf(cause), retryAfterMs: 5000, cause });
  });
  if (isSpent) throw new AlreadySpent(head.number);
  const depth = BigInt(its.chain.confirmations);
  return head.number > depth ? head.number - depth : 0n;
}
