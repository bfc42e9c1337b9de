import type { IncomingMessage } from "node:http";
import { isValidPaymentId, PAYMENT_IDENTIFIER } from "@x402/extensions/payment-identifier";
import { z } from "zod";
import { firstProblem, messageForJson } from "../../../shared/config/problem.ts";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { type Address, isAddress } from "../../../shared/ethereum/address.ts";
import { chainIdOf, UINT256_MAX } from "../../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../../shared/ethereum/signatures.ts";
import {
  type Authorization,
  authorizationDigest,
  domainSeparator,
} from "../../../shared/ethereum/typed-data.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";
import { chainIdOfV1, type Token } from "../catalog.ts";

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";
const HEADER_BYTES_MAX = 8 * 1024;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

const address = z
  .string()
  .refine(isAddress, "must be 0x and 40 hex digits")
  .transform((text) => text as Address);
const uint256 = z
  .string()
  .regex(/^(0|[1-9]\d{0,77})$/, "must be an integer in decimal, as a string")
  .transform((text) => BigInt(text))
  .refine((value) => value <= UINT256_MAX, "is above 2^256-1");

const payload = z.strictObject({
  signature: z.string().max(200),
  authorization: z.strictObject({
    from: address,
    to: address,
    value: uint256,
    validAfter: uint256,
    validBefore: uint256,
    nonce: z
      .string()
      .regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 64 hex digits")
      .transform((text) => text as `0x${string}`),
  }),
});

const text = z.string().max(2000);

/** A client that sends an identifier counts on being charged once, so an entry that is none is refused, not ignored. */
const paymentIdentifier = z.looseObject({
  info: z.looseObject({
    required: z.boolean(),
    id: z
      .string()
      .refine(isValidPaymentId, "must be 16 to 128 letters, digits, hyphens and underscores")
      .optional(),
  }),
});

/*
 * Clients write more around a payment than the protocol has, so what is unknown there is left to the facilitator, which gets it as it
 * came. What is signed, and what we match, is strict.
 */
const V2 = z.looseObject({
  x402Version: z.literal(2),
  resource: z.looseObject({ url: text }).nullish(),
  accepted: z.looseObject({
    scheme: text,
    network: text,
    asset: text,
    amount: text,
    payTo: text,
    maxTimeoutSeconds: z.number(),
    extra: z.record(z.string(), z.unknown()),
  }),
  payload,
  extensions: z.looseObject({ [PAYMENT_IDENTIFIER]: paymentIdentifier.optional() }).nullish(),
});

const V1 = z.looseObject({
  x402Version: z.literal(1),
  scheme: text,
  network: text,
  /** Some clients name the token, which version 1 leaves to the signature. */
  asset: text.nullish(),
  payload,
});

/** What a payment's header says: of the right shape, and not yet believed. */
export type DecodedPayment = {
  authorization: Authorization;
  signature: string;
  /** As sent, for the facilitator. */
  raw: object;
  /** What the request's `Idempotency-Key` stands for. */
  idempotencyKey: string | undefined;
} & (
  | {
      version: 1;
      scheme: string;
      network: string;
      asset: string | undefined;
      /** Finds the payment again once its token, which it does not name, was taken out of the configuration: it stands for the signature. */
      identifier: string;
    }
  | {
      version: 2;
      accepted: z.output<typeof V2>["accepted"];
      resourceUrl: string | undefined;
      /** The client's own identifier of what it pays for. */
      identifier: string | undefined;
    }
);

/** Whether a request brings a payment, good or bad. */
export function hasPayment({ headers }: IncomingMessage): boolean {
  return headers[V2_HEADER] !== undefined || headers[V1_HEADER] !== undefined;
}

/**
 * Decodes the payment of a request strictly. Throws `payment.ambiguous` if there are two, and `payment.malformed` if there is
 * none that can be read.
 */
export function readPayment(req: IncomingMessage): DecodedPayment {
  const [v2, v1] = [headerValues(req, V2_HEADER), headerValues(req, V1_HEADER)];
  if (v2.length + v1.length > 1) {
    throw new AppError("payment.ambiguous", {
      reason: `${v2.length} of version 2 and ${v1.length} of version 1`,
    });
  }
  const idempotencyKey = readIdempotencyKey(req);
  return { ...(v2[0] === undefined ? decodeV1(v1[0] ?? "") : decodeV2(v2[0])), idempotencyKey };
}

function decodeV2(header: string) {
  const raw = decode(header);
  const { accepted, resource, extensions, payload: signed, ...beside } = checked(V2, raw);
  assertAgreement(beside, accepted);
  return {
    version: 2,
    ...signed,
    accepted,
    resourceUrl: resource?.url,
    identifier: extensions?.[PAYMENT_IDENTIFIER]?.info.id,
    raw,
  } as const;
}

/**
 * Some clients repeat scheme and network beside `accepted`. If they differ there, we and a facilitator could each believe another
 * one, so that is no payment.
 */
function assertAgreement(
  beside: Readonly<Record<string, unknown>>,
  accepted: { scheme: string; network: string },
) {
  const { scheme = accepted.scheme, network = accepted.network } = beside;
  if (scheme !== accepted.scheme) throw malformed("scheme: differs from accepted.scheme");
  const isAlias = typeof network === "string" && `eip155:${chainIdOfV1(network)}` === accepted.network;
  if (network !== accepted.network && !isAlias) throw malformed("network: differs from accepted.network");
}

function decodeV1(header: string) {
  const raw = decode(header);
  const { scheme, network, asset, payload: signed } = checked(V1, raw);
  const identifier = identifierV1(network, signed);
  return { version: 1, ...signed, scheme, network, asset: asset ?? undefined, identifier, raw } as const;
}

/** No client's own identifier has a colon. */
function identifierV1(network: string, { authorization, signature }: z.output<typeof payload>): string {
  const { from, nonce } = authorization;
  return `v1:${sha256Hex(Buffer.from(`${network} ${from} ${nonce} ${signature}`.toLowerCase()))}`;
}

/** What an `Idempotency-Key` may be: visible ASCII. It is not parsed, so the quotes of the IETF's draft are part of it. */
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;

/** The identifier that a request's `Idempotency-Key` stands for. Throws `request.malformed` if that is none. */
function readIdempotencyKey(req: IncomingMessage): string | undefined {
  const keys = headerValues(req, "idempotency-key");
  const [key] = keys;
  if (key === undefined) return undefined;
  if (keys.length === 1 && IDEMPOTENCY_KEY.test(key)) return `key:${sha256Hex(Buffer.from(key))}`;
  const detail = "Idempotency-Key must come once, as 1 to 255 visible ASCII characters";
  throw AppError.public("request.malformed", detail);
}

function decode(header: string): object {
  if (header.length > HEADER_BYTES_MAX)
    throw malformed(`the payment header is over ${HEADER_BYTES_MAX} bytes`);
  if (!BASE64.test(header) || header.length % 4 !== 0)
    throw malformed("the payment header is not padded base64");
  try {
    const decoded: unknown = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
    if (typeof decoded === "object" && decoded !== null && !Array.isArray(decoded)) return decoded;
  } catch (cause) {
    throw malformed("the payment header does not hold JSON", cause);
  }
  throw malformed("the payment header does not hold a JSON object");
}

function checked<Schema extends z.ZodType>(schema: Schema, raw: object): z.output<Schema> {
  const result = schema.safeParse(raw, { error: messageForJson });
  if (result.success) return result.data;
  throw malformed(firstProblem(result.error, "the payment"), result.error);
}

function malformed(detail: string, cause?: unknown): AppError {
  return AppError.public("payment.malformed", detail, { cause });
}

/** A payment whose payer is recovered, if its token is known; nothing is known yet of the offer that it pays. */
export type SignedPayment = {
  /** Undefined if it is of version 1, and paid in no token that is configured. */
  callId: string | undefined;
  /** Lower case. */
  payer: `0x${string}`;
  decoded: DecodedPayment;
  /** The accepted token that it pays with, or the refusal. That is thrown only if the payment turns out to be new. */
  token: Token | AppError;
};

/** A payment in an accepted token. */
export type AcceptedPayment = SignedPayment & { callId: string; token: Token };

/**
 * Recovers who signed the payment, and so which call it is. The same payment is the same call on every replica, for ever:
 * also after its token was changed in the configuration or removed from it. Of version 1 the signer is unknown then. Throws
 * `payment.not_offered` and `payment.signature_invalid` if a signature of version 2 fits no token.
 */
export function identifyPayment(decoded: DecodedPayment, tokens: readonly Token[]): SignedPayment {
  const { from, nonce } = decoded.authorization;
  const payer = from.toLowerCase() as `0x${string}`;
  const callIdIn = ({ chainId, asset }: { chainId: number; asset: string }) =>
    paymentCallId({ chainId, asset, payer, nonce });
  const candidates = tokens.filter((token) => isPaidIn(token, decoded));
  const token = candidates.find(({ separator }) => signerOf(decoded, separator) === payer);
  if (token !== undefined) return { callId: callIdIn(token), payer, decoded, token };
  const refusal = candidates.length === 0 ? notAccepted() : notSigned();
  if (decoded.version === 1) return { callId: undefined, payer, decoded, token: refusal };
  const described = describedToken(decoded);
  if (described === undefined || signerOf(decoded, described.separator) !== payer) throw refusal;
  return { callId: callIdIn(described), payer, decoded, token: refusal };
}

/** Throws the refusal that `identifyPayment` found, if the token is not an accepted one. */
export function inAcceptedToken({ token, callId, ...payment }: SignedPayment): AcceptedPayment {
  if (token instanceof AppError) throw token;
  if (callId === undefined) throw notAccepted();
  return { ...payment, callId, token };
}

/** Version 1 need not name an asset: it means the token on its network whose domain the payer signed. */
function isPaidIn(token: Token, decoded: DecodedPayment): boolean {
  const { network, asset } = decoded.version === 1 ? decoded : decoded.accepted;
  const isOnNetwork = (decoded.version === 1 ? token.v1Network : token.network) === network;
  return isOnNetwork && (asset === undefined || token.asset.toLowerCase() === asset.toLowerCase());
}

/** The token as a payment of version 2 describes it itself: enough to find the payment again, and for nothing else. */
function describedToken({ accepted }: DecodedPayment & { version: 2 }) {
  const { network, asset, extra } = accepted;
  const { name, version } = extra;
  const isWellFormed = /^eip155:[1-9]\d{0,15}$/.test(network) && /^0x[0-9a-fA-F]{40}$/.test(asset);
  if (!isWellFormed || typeof name !== "string" || typeof version !== "string") return undefined;
  const chainId = chainIdOf(network as `eip155:${number}`);
  return { chainId, asset, separator: domainSeparator({ name, version, chainId, verifyingContract: asset }) };
}

function signerOf({ authorization, signature }: DecodedPayment, separator: string): string | undefined {
  return recoverAddress(authorizationDigest(separator, authorization), signature);
}

function notAccepted(): AppError {
  return AppError.public("payment.not_offered", "this token is not taken on this network");
}

function notSigned(): AppError {
  const detail = "the signature is not the payer's, for the token's name, version, chain and address";
  return AppError.public("payment.signature_invalid", detail);
}
