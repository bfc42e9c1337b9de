import { z } from "zod";
import type { Chain } from "../chain/chain.ts";
import type { Transfer } from "../chain/transfers.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { createMatchTransfers, type Finding, type Mismatch } from "../payments/audit.ts";
import { createPaymentList } from "../payments/list.ts";
import { createRefunds } from "../payments/refunds.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { shellLine } from "../platform/text/shell-quote.ts";
import type { Partition } from "../redis/partition.ts";
import { PaymentView, toPaymentView } from "./payment-view.ts";
import { type DecimalsOf, decimalsFrom, type TokenSource } from "./tokens.ts";
import { count } from "./view.ts";

const block = z.string().regex(/^\d{1,18}$/, "must be a block number in decimal digits");

/** Which transfers are matched with the payments. */
export const AuditOrder = z.strictObject({
  /** CAIP-2; needed with a block, if the tokens are on several networks. */
  network: z.string().max(64).optional(),
  /** Without it the last 50,000 blocks. */
  from_block: block.optional(),
  /** Without it the newest. */
  to_block: block.optional(),
});
export type AuditOrder = z.infer<typeof AuditOrder>;

/** A transfer to us. The amount is in the token's smallest unit. */
const TransferView = z.object({
  transaction: z.string(),
  block: z.string(),
  from: z.string(),
  amount: z.string(),
  nonce: z.string().nullable(),
});

/** What the chain shows of one token, against the journal. */
export const TokenAudit = z.object({
  network: z.string(),
  asset: z.string(),
  symbol: z.string(),
  decimals: count,
  pay_to: z.string(),
  from_block: z.string(),
  to_block: z.string(),
  matched: count,
  /** The matched transfers, as far as they are listed: what another deployment's audit is compared with. */
  matches: z.array(z.object({ transaction: z.string(), position: z.int(), call_id: z.string() })),
  /** Money that no payment explains; `call_id` is the payment that its authorization names, which is unknown here. */
  orphans: z.array(TransferView.extend({ call_id: z.string().nullable() })),
  /** Money for payments that do not count as paid. */
  unsettled: z.array(TransferView.extend({ payment: PaymentView })),
  /** Payments that count as paid, and whose money the chain does not show. */
  missing: z.array(z.object({ payment: PaymentView })),
  /** Refunds beyond the one that closed the payment's case. `from` is the sender in `refund_from`. */
  surplus_refunds: z.array(TransferView.extend({ payment: PaymentView })),
  /** So many more do not match, and are not listed. */
  more: count,
});
export type TokenAudit = z.infer<typeof TokenAudit>;

export const MoneyAudit = z.object({ tokens: z.array(TokenAudit) });
export type MoneyAudit = z.infer<typeof MoneyAudit>;

/**
 * Matches transfers with payments. Throws `request.malformed` if the network is to be chosen, `token.unconfigured` if a chain cannot be asked,
 * `start.config_invalid` and `payment.unavailable`; and something else once the signal is aborted.
 */
export type AuditMoney = (order: AuditOrder, work?: AuditWork) => Promise<MoneyAudit>;

type AuditWork = { signal?: AbortSignal; tell?: (soFar: MoneyAudit) => void };

const BLOCKS = 50_000n;

type Audited = { token: AcceptedToken; chain: Chain };

/** `listedMax`: how many mismatches of each token are listed. */
export function createAuditMoney(
  partition: Partition,
  tokens: TokenSource,
  { listedMax = Number.POSITIVE_INFINITY } = {},
): AuditMoney {
  const payments = createPaymentList(partition);
  const refunds = createRefunds(partition);
  const decimalsOf = decimalsFrom(tokens);

  async function auditOne(audit: TokenAudit, { token, chain }: Audited, work: AuditWork): Promise<void> {
    const { network, asset, transfer_method: method, event_order: eventOrder } = token;
    const { pay_to: payTo, refund_from: refundFrom } = token;
    const [fromBlock, toBlock] = [BigInt(audit.from_block), BigInt(audit.to_block)];
    const matchTransfers = createMatchTransfers({ chain, payments, refunds });
    const money = { network, asset, method, eventOrder, payTo, refundFrom };
    const range = { ...money, fromBlock, toBlock, signal: work.signal };
    for await (const found of matchTransfers(range)) {
      if (found.kind === "matched") noteMatch(audit, found, listedMax);
      else if (listedIn(audit) >= listedMax) audit.more += 1;
      else note(audit, found, decimalsOf);
    }
  }

  return async function auditMoney(order, work = {}) {
    const chosen = chooseTokens(tokens, order);
    const soFar: MoneyAudit = { tokens: [] };
    for (const network of new Set(chosen.map(({ token }) => token.network))) {
      const ofNetwork = chosen.filter(({ token }) => token.network === network);
      const range = await rangeOf(order, ofNetwork);
      for (const audited of ofNetwork) {
        work.signal?.throwIfAborted();
        const audit = emptyAudit(audited.token, range);
        soFar.tokens.push(audit);
        work.tell?.(soFar);
        await auditOne(audit, audited, work);
      }
    }
    return soFar;
  };
}

/** The range, as the options of a command. */
export function auditSelection({ network, from_block: from, to_block: to }: AuditOrder): string {
  const given = [
    ["--network", network],
    ["--from-block", from],
    ["--to-block", to],
  ].flatMap(([flag, value]) => (flag === undefined || value === undefined ? [] : [flag, value]));
  return given.length === 0 ? "the newest blocks" : shellLine(given);
}

/** The configured tokens that are audited, with their chains. Throws as `AuditMoney` does. */
export function chooseTokens(source: TokenSource, { network, ...blocks }: AuditOrder): Audited[] {
  assertInOrder(blocks);
  const accepted = source.chains();
  const networks = [...new Set(accepted.map((token): string => token.network))];
  const hasBlock = Object.values(blocks).some((each) => each !== undefined);
  if (network === undefined ? hasBlock && networks.length > 1 : !networks.includes(network))
    throw AppError.public("request.malformed", `network: must be one of ${networks.join(", ")}`);
  const tokens = accepted.filter((token) => network === undefined || token.network === network);
  const audited = tokens.flatMap((token) => {
    const chain = source.chainOf(token);
    return chain === undefined ? [] : [{ token, chain }];
  });
  if (audited.length === tokens.length) return audited;
  const detail = "x402.toml: a token has no rpc_url, so its chain cannot be queried; set rpc_url";
  if (audited.length === 0 || network !== undefined || networks.length === 1)
    throw AppError.public("token.unconfigured", detail);
  return audited;
}

/** Nodes differ by some blocks: the range ends where all have been. */
async function rangeOf({ from_block, to_block }: AuditOrder, audited: readonly Audited[]) {
  const heads = await Promise.all(audited.map(({ chain }) => chain.freshHead()));
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
}: Pick<AuditOrder, "from_block" | "to_block">): void {
  if (from === undefined || to === undefined || BigInt(from) <= BigInt(to)) return;
  throw AppError.public(
    "request.malformed",
    `from_block: must not be after to_block: ${from} is after ${to}`,
  );
}

function emptyAudit(
  { network, asset, symbol, decimals, pay_to }: AcceptedToken,
  { fromBlock, toBlock }: { fromBlock: bigint; toBlock: bigint },
): TokenAudit {
  return {
    ...{ network, asset, symbol, decimals, pay_to },
    ...{ from_block: String(fromBlock), to_block: String(toBlock), matched: 0, matches: [] },
    ...{ orphans: [], unsettled: [], missing: [], surplus_refunds: [], more: 0 },
  };
}

function listedIn({ orphans, unsettled, missing, surplus_refunds }: TokenAudit): number {
  return orphans.length + unsettled.length + missing.length + surplus_refunds.length;
}

function noteMatch(
  audit: TokenAudit,
  { transfer: { transaction, position }, payment }: Extract<Finding, { kind: "matched" }>,
  listedMax: number,
): void {
  audit.matched += 1;
  if (audit.matches.length < listedMax) audit.matches.push({ transaction, position, call_id: payment.id });
}

function note(audit: TokenAudit, found: Mismatch, decimalsOf: DecimalsOf): void {
  switch (found.kind) {
    case "orphan":
      audit.orphans.push({ ...toTransferView(found.transfer), call_id: found.callId ?? null });
      return;
    case "missing":
      audit.missing.push({ payment: toPaymentView(found.payment, decimalsOf) });
      return;
    case "unsettled":
    case "surplus": {
      const list = found.kind === "surplus" ? audit.surplus_refunds : audit.unsettled;
      list.push({ ...toTransferView(found.transfer), payment: toPaymentView(found.payment, decimalsOf) });
    }
  }
}

function toTransferView({ transaction, block: at, from, value, authorization }: Transfer) {
  return {
    ...{ transaction, block: String(at), from, amount: String(value) },
    nonce: authorization?.nonce ?? null,
  };
}
