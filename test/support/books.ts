import { uintWord } from "../../shared/chain/encoding.ts";
import { PERMIT2 } from "../../shared/chain/permit2.ts";
import { paymentCallId } from "../../shared/payments/payment.ts";
import type { TokenTransfer } from "./devnet.ts";
import type { Answer } from "./http.ts";

/** Identifies an authorization by its signer and nonce, in lower case. */
export type PaymentName = {
  payer: string;
  nonce: string;
  /** The contract that uses up the nonce; by default the token of the books. */
  taker?: string | undefined;
};

/** The answer to a payment that a client sent. */
export type ClientAnswer = {
  payment: PaymentName;
  status: number;
  code: string | undefined;
  /** True if a facilitator had received the settle request for this payment when the answer came. */
  dispatched: boolean;
};

/** Traces of paid requests, from independent sources. */
export type Books = {
  chainId: number;
  /** The token, whose contract uses up the nonces of its authorizations. */
  asset: string;
  /** Transfers to the seller, from the chain. */
  transfers: readonly TokenTransfer[];
  /** Ids of the calls that are queued or have had their effect. */
  calls: readonly string[];
  told: readonly ClientAnswer[];
  /** Ids of payments that are VOID in the journal. */
  voids: readonly string[];
  /** Nonces whose charges need no call, because they were used before the gateway sent a settle request. */
  foreign?: readonly string[];
};

/** Returns the contradictions in the books. Missing parts of the books are not checked. */
export function violationsIn(books: Books): string[] {
  return [...unmatched(books), ...chargedForRefusal(books), ...refusedTooSoon(books)];
}

/** Checks that each transfer has exactly one call, and each call one transfer, by payer and nonce. */
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

/**
 * Checks that no refused payment was charged. A 4xx is final, except one that says that the payment was used for
 * another request.
 */
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

/**
 * Checks the 402 answers: once money may have moved, only a VOID payment may get a 402. A VOID payment must never
 * have been made.
 */
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

/** Returns the payment in a request's headers; undefined if they have no readable one. */
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
