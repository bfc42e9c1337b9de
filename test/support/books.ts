import { uintWord } from "../../shared/chain/encoding.ts";
import { PERMIT2 } from "../../shared/chain/permit2.ts";
import { paymentCallId } from "../../shared/payments/payment.ts";
import type { TokenTransfer } from "./devnet.ts";
import type { Answer } from "./http.ts";

/** Who signed which authorization; lower-case. */
export type PaymentName = {
  payer: string;
  nonce: string;
  /** The contract that takes the nonce once; without it that of the books. */
  taker?: string | undefined;
};

/** What a client was told of a payment that it sent. */
export type Told = {
  payment: PaymentName;
  status: number;
  code: string | undefined;
  /** Whether a facilitator had been asked to settle this payment when the answer was there. */
  dispatched: boolean;
};

/** All that is left of some paid requests, from places that know nothing of one another. */
export type Books = {
  chainId: number;
  /** The token, whose contract takes the nonces of its authorizations. */
  asset: string;
  /** To the seller, from the chain. */
  transfers: readonly TokenTransfer[];
  /** The ids of the calls that are queued or have had their effect. */
  calls: readonly string[];
  told: readonly Told[];
  /** Ids of payments that the journal calls VOID. */
  voids: readonly string[];
  /** Nonces that somebody spent past the gateway, before it had asked anybody to settle them: charged without a call. */
  foreign?: readonly string[];
};

/** What is wrong in the books; nothing is expected of what they do not say. */
export function violationsIn(books: Books): string[] {
  return [...unmatched(books), ...chargedForRefusal(books), ...refusedTooSoon(books)];
}

/** Transfers and calls are a bijection on (payer, nonce). */
function unmatched({ transfers, calls, foreign = [], ...books }: Books): string[] {
  const paid = transfers
    .filter(({ nonce }) => nonce === undefined || !foreign.includes(nonce))
    .map(({ from, nonce, taker }) =>
      nonce === undefined ? "no authorization" : idOf(books, { payer: from, nonce, taker }),
    );
  return [
    ...paid.filter((id) => !calls.includes(id)).map((id) => `${id} is paid and has no call`),
    ...calls.filter((id) => !paid.includes(id)).map((id) => `${id} has a call and is not paid`),
    ...repeated(paid).map((id) => `${id} is paid twice`),
    ...repeated(calls).map((id) => `${id} has two calls`),
  ];
}

/** A 4xx is final, but for one that says that the payment was used for another request. */
function chargedForRefusal({ told, transfers, foreign = [] }: Books): string[] {
  const last = new Map(told.map((each) => [nameOf(each.payment), each]));
  const refused = [...last.values()].filter(
    ({ status, code }) => status >= 400 && status < 500 && code !== "payment.conflict",
  );
  const charged = refused.filter(
    ({ payment }) =>
      !foreign.includes(payment.nonce) &&
      !told.some((each) => each.status === 202 && nameOf(each.payment) === nameOf(payment)) &&
      transfers.some(({ from, nonce }) => from === payment.payer && nonce === payment.nonce),
  );
  return charged.map(({ payment, code }) => `${nameOf(payment)} is charged and was refused: ${code}`);
}

/** Once money may have moved, only what is VOID allows a 402; and what is VOID never paid. */
function refusedTooSoon({ told, voids, transfers, ...books }: Books): string[] {
  return told
    .filter(({ status, code, dispatched }) => status === 402 && (dispatched || code === "payment.void"))
    .flatMap(({ payment, code }) => {
      const paid = transfers.some(({ from, nonce }) => from === payment.payer && nonce === payment.nonce);
      if (!voids.includes(idOf(books, payment)))
        return [`${nameOf(payment)}: ${code} after its settle, and not VOID`];
      return paid ? [`${nameOf(payment)}: VOID, and paid`] : [];
    });
}

export function idOf(
  { chainId, asset }: Pick<Books, "chainId" | "asset">,
  { payer, nonce, taker = asset }: PaymentName,
): string {
  const method = taker.toLowerCase() === PERMIT2.toLowerCase() ? "permit2" : "eip3009";
  return paymentCallId({ chainId, method, asset: taker, payer, nonce });
}

function nameOf({ payer, nonce }: PaymentName): string {
  return `${payer} ${nonce}`;
}

function repeated(list: readonly string[]): string[] {
  return list.filter((each, i) => list.indexOf(each) !== i);
}

/** Which payment a request's headers hold; undefined where they do not read as one. */
export function paymentIn(headers: Readonly<Record<string, string>>): PaymentName | undefined {
  const header = headers["PAYMENT-SIGNATURE"] ?? headers["X-PAYMENT"];
  if (header === undefined) return undefined;
  try {
    const { payload, accepted } = JSON.parse(Buffer.from(header, "base64").toString());
    if (payload.permit2Authorization !== undefined) {
      const { from, nonce } = payload.permit2Authorization as { from: string; nonce: string };
      return { payer: from.toLowerCase(), nonce: `0x${uintWord(BigInt(nonce))}`, taker: PERMIT2 };
    }
    const { from, nonce } = payload.authorization as { from: string; nonce: string };
    return { payer: from.toLowerCase(), nonce: nonce.toLowerCase(), taker: accepted?.asset };
  } catch {
    return undefined;
  }
}

export function codeOf(answer: Answer): string | undefined {
  try {
    return answer.json<{ code?: string }>().code;
  } catch {
    return undefined;
  }
}
