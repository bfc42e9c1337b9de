import { type KeyObject, randomBytes } from "node:crypto";
import { z } from "zod";
import { sha256Hex } from "../platform/crypto/compare.ts";
import { verifyJws } from "../platform/crypto/jws.ts";

/*
 * Receipts are JWTs that a payment gateway signs for its client. A payment receipt says that the gateway was paid, and
 * nothing about the job. A result receipt says how the call ended. docs/payments.md lists their claims.
 */

/** Path of the public keys that verify receipts, below the `public_url` of the gateway that signs them. */
export const RECEIPT_KEYS_PATH = "/.well-known/jwks.json";

/** Claims of all receipts. `iss` is the `public_url` of the gateway. `iat` is when the receipt was signed, in unix seconds. */
const common = {
  iss: z.string(),
  iat: z.int(),
  call_id: z.string(),
  service_id: z.int(),
  job_index: z.int(),
  /** CAIP-2. */
  network: z.string(),
  payer: z.string(),
  transaction: z.string(),
};

const PaymentClaims = z.object({
  ...common,
  asset: z.string(),
  amount: z.string(),
  pay_to: z.string(),
  quote_digest: z.string(),
  body_digest: z.string(),
  /** The payment's status when the receipt was signed, as in the gateway's 202 answer. */
  status: z.string(),
});
export type PaymentClaims = z.infer<typeof PaymentClaims>;

const ResultClaims = z.object({
  ...common,
  /** Times in unix ms when the payment was claimed and when the call ended. They are those of the call's status. */
  accepted_at: z.number(),
  ended_at: z.number(),
  status: z.enum(["completed", "failed"]),
  /**
   * HTTP status of the runner's answer, or of the result that it delivered for a long job. Absent if Postern itself failed
   * the call.
   */
  result_status: z.int().optional(),
  content_type: z.string().optional(),
  /** Present only if the call has completed. */
  result_digest: z.string().optional(),
  failure_code: z.string().optional(),
  refund_transaction: z.string().optional(),
});
export type ResultClaims = z.infer<typeof ResultClaims>;

/** The value of `typ` in the header of each kind of receipt. */
export const RECEIPT_TYPES = { payment: "payment-receipt+jwt", result: "result-receipt+jwt" } as const;

type ReceiptType = keyof typeof RECEIPT_TYPES;
type ReceiptClaims = PaymentClaims | ResultClaims;

const READERS = [
  {
    typ: RECEIPT_TYPES.payment,
    verified(given: unknown): VerifiedReceipt | undefined {
      const claims = PaymentClaims.safeParse(given).data;
      return claims && { type: "payment", claims, digest: claims.body_digest };
    },
  },
  {
    typ: RECEIPT_TYPES.result,
    verified(given: unknown): VerifiedReceipt | undefined {
      const claims = ResultClaims.safeParse(given).data;
      return claims && { type: "result", claims, digest: claims.result_digest };
    },
  },
];

/**
 * A receipt, and the salt of the digest in it. The client can show the receipt to others without the salt, so that they
 * cannot guess the content (`saltedDigest`).
 */
export type SignedReceipt = { jws: string; salt?: string };

/**
 * Returns the digest that a receipt has of some content, such as a request's body. It is made from a salt and the content's
 * SHA-256 in hex. Someone who has the receipt but not the salt cannot test whether a guess of the content is right.
 */
export function saltedDigest(salt: string, contentSha256: string): string {
  return sha256Hex(Buffer.from(`${salt}.${contentSha256}`));
}

/** Claims of a verified receipt, and the salted digest among them. A receipt of a failed call has no digest. */
export type VerifiedReceipt = { type: ReceiptType; claims: ReceiptClaims; digest: string | undefined };

/**
 * Verifies that a receipt is from this issuer. `keys` must be the keys that the issuer publishes, because a receipt signed
 * with other keys proves nothing. Throws an error that says what is wrong.
 */
export function verifyReceipt(jws: string, keys: readonly KeyObject[], issuer: string): VerifiedReceipt {
  const { typ, claims } = verifyJws(jws, keys);
  const read = READERS.find((each) => each.typ === typ);
  if (read === undefined) throw new Error("its type is not that of a receipt");
  const verified = read.verified(claims);
  if (verified === undefined) throw new Error("its claims are not those of a receipt");
  if (verified.claims.iss !== issuer) throw new Error(`its issuer is ${verified.claims.iss}, not ${issuer}`);
  return verified;
}

export function newSalt(): string {
  return randomBytes(16).toString("base64url");
}
