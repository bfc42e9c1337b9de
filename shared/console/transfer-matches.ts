import { z } from "zod";
import type { Chain } from "../chain/chain.ts";
import type { Transfer } from "../chain/transfers.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { createAllPayments } from "../payments/all-payments.ts";
import { createAllRefunds } from "../payments/all-refunds.ts";
import { createMatchTransfers, type Finding, type Mismatch } from "../payments/match-transfers.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { optionWords, shellLine } from "../platform/text/shell-quote.ts";
import type { Partitions } from "../redis/partition.ts";
import { PaymentView, toPaymentView } from "./payment-view.ts";
import { type DecimalsOf, decimalsFrom, type TokenSource } from "./tokens.ts";
import { count } from "./view.ts";

const block = z.string().regex(/^\d{1,18}$/, "must be a block number in decimal digits");

/** Selects the transfers to match with the payments. */
export const MatchOrder = z.strictObject({
  /** Network (CAIP-2). Required if a block is given and the tokens are on several networks. */
  network: z.string().max(64).optional(),
  /** First block; by default 50,000 blocks before the newest. */
  from_block: block.optional(),
  /** Last block; by default the newest. */
  to_block: block.optional(),
});
export type MatchOrder = z.infer<typeof MatchOrder>;

/**
 * A transfer on the chain: to a configured recipient (`pay_to`), or a refund. The amount is in the token's smallest unit.
 */
const TransferView = z.object({
  transaction: z.string(),
  block: z.string(),
  from: z.string(),
  amount: z.string(),
  nonce: z.string().nullable(),
});

/** A transfer, and the payment to which it belongs. */
const PaymentTransfer = TransferView.extend({ payment: PaymentView }).meta({ id: "PaymentTransfer" });

export const TokenMatches = z
  .object({
    network: z.string(),
    asset: z.string(),
    symbol: z.string(),
    decimals: count,
    pay_to: z.string(),
    from_block: z.string(),
    to_block: z.string(),
    matched: count,
    /**
     * Some matched transfers, at most `listedMax`. Another deployment may sell to the same `pay_to`. An operator can then
     * compare the matches of both: if a transfer is in both, it has paid for two jobs.
     */
    matches: z.array(z.object({ transaction: z.string(), position: z.int(), call_id: z.string() })),
    /**
     * Transfers that belong to no known payment. The authorization of a transfer may name a call, which is then in
     * `call_id` and unknown too.
     */
    orphans: z.array(TransferView.extend({ call_id: z.string().nullable() })),
    /** Transfers for payments that do not count as paid, although the money has arrived. */
    unsettled: z.array(PaymentTransfer),
    /** Payments that count as paid, but have no transfer on the chain. */
    missing: z.array(z.object({ payment: PaymentView })),
    /** Further refunds of a payment that was already paid back. `from` is the account that sent the refund. */
    surplus_refunds: z.array(PaymentTransfer),
    /** Number of further mismatches, which are not listed because there are too many. */
    more: count,
  })
  .meta({ id: "TokenAudit" });
export type TokenMatches = z.infer<typeof TokenMatches>;

export const TransferMatches = z.object({ tokens: z.array(TokenMatches) });
export type TransferMatches = z.infer<typeof TransferMatches>;

/**
 * Matches transfers with payments. Throws `request.malformed` if the network is missing or unknown, or if the first
 * block is after the last. Throws what `chooseTokens` throws about the tokens, `payment.unavailable` if a node fails,
 * and the signal's reason once the signal is aborted.
 */
export type FindMatches = (order: MatchOrder, work?: MatchWork) => Promise<TransferMatches>;

type MatchWork = { signal?: AbortSignal; tell?: (soFar: TransferMatches) => void };

const BLOCKS = 50_000n;

type Chosen = { token: AcceptedToken; chain: Chain };

/** Creates a `FindMatches`. `listedMax` limits the mismatches that are listed for each token. */
export function createFindMatches(
  partitions: Partitions,
  tokens: TokenSource,
  listedMax: number,
): FindMatches {
  const payments = createAllPayments(partitions);
  const refunds = createAllRefunds(partitions);
  const decimalsOf = decimalsFrom(tokens);

  async function matchToken(result: TokenMatches, { token, chain }: Chosen, work: MatchWork): Promise<void> {
    const { network, asset, transfer_method: method, event_order: eventOrder } = token;
    const { pay_to: payTo, refund_from: refundFrom } = token;
    const [fromBlock, toBlock] = [BigInt(result.from_block), BigInt(result.to_block)];
    const matchTransfers = createMatchTransfers({ chain, payments, refunds });
    const money = { network, asset, method, eventOrder, payTo, refundFrom };
    const range = { ...money, fromBlock, toBlock, signal: work.signal };
    for await (const found of matchTransfers(range)) {
      if (found.kind === "matched") addMatch(result, found, listedMax);
      else if (listedIn(result) >= listedMax) result.more += 1;
      else addMismatch(result, found, decimalsOf);
    }
  }

  return async function findMatches(order, work = {}) {
    const chosen = chooseTokens(tokens, order);
    const soFar: TransferMatches = { tokens: [] };
    for (const network of new Set(chosen.map(({ token }) => token.network))) {
      const ofNetwork = chosen.filter(({ token }) => token.network === network);
      const range = await rangeOf(order, ofNetwork);
      for (const each of ofNetwork) {
        work.signal?.throwIfAborted();
        const result = emptyResult(each.token, range);
        soFar.tokens.push(result);
        work.tell?.(soFar);
        await matchToken(result, each, work);
      }
    }
    return soFar;
  };
}

/** Writes the order for the audit log, as the options of a command. */
export function matchSelection({ network, from_block: from, to_block: to }: MatchOrder): string {
  const given = optionWords({ "--network": network, "--from-block": from, "--to-block": to });
  return given.length === 0 ? "the newest blocks" : shellLine(given);
}

/**
 * Returns the configured tokens that the order selects, with their chains. Throws `token.unconfigured` if a selected
 * token has no node. An order that selects several networks leaves out such tokens, and throws only if no token
 * remains. Also throws `request.malformed` as `FindMatches` does, and what `TokenSource.chains` throws.
 */
export function chooseTokens(source: TokenSource, { network, ...blocks }: MatchOrder): Chosen[] {
  assertInOrder(blocks);
  const accepted = source.chains();
  const networks = [...new Set(accepted.map((token): string => token.network))];
  const hasBlock = Object.values(blocks).some((each) => each !== undefined);
  if (network === undefined ? hasBlock && networks.length > 1 : !networks.includes(network))
    throw AppError.public("request.malformed", `network: must be one of ${networks.join(", ")}`);
  const tokens = accepted.filter((token) => network === undefined || token.network === network);
  const chosen = tokens.flatMap((token) => {
    const chain = source.chainOf(token);
    return chain === undefined ? [] : [{ token, chain }];
  });
  if (chosen.length === tokens.length) return chosen;
  const detail = "x402.toml: a token has no rpc_url, so its chain cannot be queried; set rpc_url";
  if (chosen.length === 0 || network !== undefined || networks.length === 1)
    throw AppError.public("token.unconfigured", detail);
  return chosen;
}

/**
 * Returns the range of blocks. The nodes are not all at the same block, so the range ends at the last block that all of
 * them have.
 */
async function rangeOf({ from_block, to_block }: MatchOrder, chosen: readonly Chosen[]) {
  const heads = await Promise.all(chosen.map(({ chain }) => chain.freshHead()));
  const latest = heads.reduce(
    (least, { number }) => (number < least ? number : least),
    heads[0]?.number ?? 0n,
  );
  const toBlock = to_block === undefined ? latest : BigInt(to_block);
  const first = toBlock < BLOCKS ? 0n : toBlock - BLOCKS + 1n;
  const fromBlock = from_block === undefined ? first : BigInt(from_block);
  assertInOrder({ from_block: String(fromBlock), to_block: String(toBlock) });
  return { fromBlock, toBlock };
}

function assertInOrder({
  from_block: from,
  to_block: to,
}: Pick<MatchOrder, "from_block" | "to_block">): void {
  if (from === undefined || to === undefined || BigInt(from) <= BigInt(to)) return;
  throw AppError.public(
    "request.malformed",
    `from_block: must not be after to_block: ${from} is after ${to}`,
  );
}

function emptyResult(
  { network, asset, symbol, decimals, pay_to }: AcceptedToken,
  { fromBlock, toBlock }: { fromBlock: bigint; toBlock: bigint },
): TokenMatches {
  return {
    network,
    asset,
    symbol,
    decimals,
    pay_to,
    from_block: String(fromBlock),
    to_block: String(toBlock),
    matched: 0,
    matches: [],
    orphans: [],
    unsettled: [],
    missing: [],
    surplus_refunds: [],
    more: 0,
  };
}

function listedIn({ orphans, unsettled, missing, surplus_refunds }: TokenMatches): number {
  return orphans.length + unsettled.length + missing.length + surplus_refunds.length;
}

function addMatch(
  result: TokenMatches,
  { transfer: { transaction, position }, payment }: Extract<Finding, { kind: "matched" }>,
  listedMax: number,
): void {
  result.matched += 1;
  if (result.matches.length < listedMax) result.matches.push({ transaction, position, call_id: payment.id });
}

function addMismatch(result: TokenMatches, found: Mismatch, decimalsOf: DecimalsOf): void {
  switch (found.kind) {
    case "orphan":
      result.orphans.push({ ...toTransferView(found.transfer), call_id: found.callId ?? null });
      return;
    case "missing":
      result.missing.push({ payment: toPaymentView(found.payment, decimalsOf) });
      return;
    case "unsettled":
    case "surplus": {
      const list = found.kind === "surplus" ? result.surplus_refunds : result.unsettled;
      list.push({ ...toTransferView(found.transfer), payment: toPaymentView(found.payment, decimalsOf) });
    }
  }
}

function toTransferView({ transaction, block: at, from, value, authorization }: Transfer) {
  return { transaction, block: String(at), from, amount: String(value), nonce: authorization?.nonce ?? null };
}
