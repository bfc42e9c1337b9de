import { z } from "zod";
import type { Chain } from "../chain/chain.ts";
import { tokenOf } from "../config/accepted-tokens.ts";
import { toAuthorization } from "../payments/payment.ts";
import {
  createSpentElsewhere,
  type SpentElsewhere,
  SpentElsewhereTerms,
} from "../payments/spent-elsewhere.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { toIso } from "../platform/time/iso.ts";
import type { Partition } from "../redis/partition.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { TermsView, toTermsView } from "./payment-view.ts";
import { decimalsFrom, type TokenSource } from "./tokens.ts";
import { isoTime } from "./view.ts";

const { block } = SpentElsewhereTerms.shape;

/** A payment that was refused because its authorization was already used, and what the chain shows about that. */
export const SpentElsewhereView = TermsView.omit({
  quote_digest: true,
  x402_version: true,
  body_bytes: true,
})
  .extend({
    /** The newest block at the time of the request. The authorization was used in this block or an earlier one. */
    block,
    /** The call that the payment would have paid for. */
    call_id: z.string(),
    came_at: isoTime,
    /** Decimals of the token; null if the token is not configured here. */
    decimals: z.int().nullable(),
    /** The transaction that used the authorization; null if it is not known. */
    transaction: z.string().nullable(),
    /** Whether `pay_to` received the money; null if that is not known. */
    paid: z.boolean().nullable(),
    /** A sentence that says what the chain shows. */
    chain: z.string(),
  })
  .meta({ id: "SpentElsewhere" });
export type SpentElsewhereView = z.infer<typeof SpentElsewhereView>;

export const SpentElsewherePage = z.object({ payments: z.array(SpentElsewhereView), next });
export type SpentElsewherePage = z.infer<typeof SpentElsewherePage>;

const Place = z.strictObject({ at: z.number(), id: z.string() });

/**
 * Lists payments that were refused because their authorization was already used, newest first. Asks the chain about
 * each of them. Throws what `TokenSource.chains` throws.
 */
export type ListSpentElsewhere = (page: PageRequest) => Promise<SpentElsewherePage>;

export function createListSpentElsewhere(partition: Partition, tokens: TokenSource): ListSpentElsewhere {
  const spent = createSpentElsewhere(partition);
  const decimalsOf = decimalsFrom(tokens);

  async function toView(payment: SpentElsewhere): Promise<SpentElsewhereView> {
    const { id, at, ...terms } = payment;
    const fate = await readEvidence(tokens, payment).catch(
      (error): ChainEvidence => ({ text: messageOf(error) }),
    );
    return {
      call_id: id,
      came_at: toIso(at),
      ...toTermsView(terms),
      decimals: decimalsOf(terms) ?? null,
      transaction: fate.transaction ?? null,
      paid: fate.paid ?? null,
      chain: fate.text,
    };
  }

  return async function list({ limit, cursor }) {
    const after = fromCursor(Place, cursor);
    tokens.chains(); // throws if the tokens are not known; otherwise `toView` would show this error as evidence
    const left = (await spent.list()).filter(
      ({ at, id }) => after === undefined || at < after.at || (at === after.at && id < after.id),
    );
    const payments: SpentElsewhereView[] = [];
    for (const payment of left.slice(0, limit)) payments.push(await toView(payment));
    const last = left.length > limit ? left[limit - 1] : undefined;
    return { payments, next: toCursor(last && { at: last.at, id: last.id }) };
  };
}

/**
 * Evidence on the chain about the transaction that used the authorization. `paid` is undefined if it is not known
 * whether `pay_to` received the money.
 */
type ChainEvidence = { transaction?: string; paid?: boolean; text: string };

async function readEvidence(tokens: TokenSource, payment: SpentElsewhere): Promise<ChainEvidence> {
  const token = tokenOf(tokens.chains(), payment);
  const chain = token && tokens.chainOf(token);
  if (token === undefined || chain === undefined) return { text: "x402.toml has no rpc_url for its token" };
  const authorization = toAuthorization(payment, token.event_order);
  const spend = await chain.spentBefore(authorization, BigInt(payment.block));
  if (spend === undefined) return { text: "no transaction in the 10,000 blocks before the request spent it" };
  const { transaction, how } = spend;
  if (how === "cancelled") return { transaction, paid: false, text: `cancelled in ${transaction}` };
  return { transaction, ...(await findPayment(chain, transaction, authorization)) };
}

async function findPayment(
  chain: Chain,
  transaction: string,
  authorization: ReturnType<typeof toAuthorization>,
) {
  const proof = await chain.proofOf(transaction as `0x${string}`, authorization);
  if (proof?.kind === "paid") return { paid: true, text: `paid to you in ${transaction}` };
  if (proof?.kind === "none") return { paid: false, text: `spent in ${transaction}, but not paid to you` };
  return { text: `spent in ${transaction}, which does not show whether it was paid to you` };
}
