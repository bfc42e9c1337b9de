import type { IncomingMessage } from "node:http";
import { extractPaymentIdentifier, isValidPaymentId } from "@x402/extensions/payment-identifier";
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
import type { Token } from "../catalog.ts";

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

const V2 = z.strictObject({
  x402Version: z.literal(2),
  resource: z.looseObject({ url: text }).optional(),
  accepted: z.strictObject({
    scheme: text,
    network: text,
    asset: text,
    amount: text,
    payTo: text,
    maxTimeoutSeconds: z.number(),
    extra: z.record(z.string(), z.unknown()),
  }),
  payload,
  extensions: z.record(z.string(), z.unknown()).optional(),
});

const V1 = z.strictObject({ x402Version: z.literal(1), scheme: text, network: text, payload });

/** What a payment's header says: of the right shape, and not yet believed. */
export type DecodedPayment = {
  authorization: Authorization;
  signature: string;
  /** As sent, for the facilitator. */
  raw: object;
} & (
  | {
      version: 1;
      scheme: string;
      network: string;
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
  return v2[0] === undefined ? decodeV1(v1[0] ?? "") : decodeV2(v2[0]);
}

function decodeV2(header: string): DecodedPayment {
  const raw = decode(header);
  const { accepted, resource, payload: signed } = checked(V2, raw);
  return {
    version: 2,
    ...signed,
    accepted,
    resourceUrl: resource?.url,
    identifier: identifierIn(raw),
    raw,
  };
}

/** A client that sends an identifier counts on being charged once, so a malformed one is refused, not ignored. */
function identifierIn(raw: object): string | undefined {
  const payload = raw as Parameters<typeof extractPaymentIdentifier>[0];
  const identifier = extractPaymentIdentifier(payload, false) ?? undefined;
  if (identifier === undefined || isValidPaymentId(identifier)) return identifier;
  throw malformed("the payment-identifier must be 16 to 128 letters, digits, hyphens and underscores");
}

function decodeV1(header: string): DecodedPayment {
  const raw = decode(header);
  const { scheme, network, payload: signed } = checked(V1, raw);
  return { version: 1, ...signed, scheme, network, identifier: identifierV1(network, signed), raw };
}

/** No client's own identifier has a colon. */
function identifierV1(network: string, { authorization, signature }: z.output<typeof payload>): string {
  const { from, nonce } = authorization;
  return `v1:${sha256Hex(Buffer.from(`${network} ${from} ${nonce} ${signature}`.toLowerCase()))}`;
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

/** Version 1 names no asset: it means the token on its network whose domain the payer signed. */
function isPaidIn(token: Token, decoded: DecodedPayment): boolean {
  if (decoded.version === 1) return token.v1Network === decoded.network;
  const { network, asset } = decoded.accepted;
  return token.network === network && token.asset.toLowerCase() === asset.toLowerCase();
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
