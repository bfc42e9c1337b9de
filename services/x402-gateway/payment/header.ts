import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { isAddress } from "../../../shared/chain/address.ts";
import { chainIdOf, type Hex } from "../../../shared/chain/encoding.ts";
import { recoverAddress } from "../../../shared/chain/signatures.ts";
import { isTable } from "../../../shared/config/fields.ts";
import { firstProblem, messageForJson } from "../../../shared/config/problem.ts";
import { decodeBase64Json } from "../../../shared/http/base64-json.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Token } from "../offer/catalog.ts";
import { DEFAULT_SCHEME, METHODS, SCHEMES } from "../schemes/registry.ts";
import type { AssetTransferMethod, Scheme, SignedTransfer } from "../schemes/scheme.ts";
import { chainIdOfV1 } from "../schemes/v1-networks.ts";
import { isPaymentIdentifier, PAYMENT_IDENTIFIER } from "./payment-identifier.ts";

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";

const SIGNATURE_BYTES_MAX = 4096;
/** A key's signature has 65 bytes; a wallet's has what its contract wants. */
const signature = z
  .string()
  .max(2 + 2 * SIGNATURE_BYTES_MAX, `is over ${SIGNATURE_BYTES_MAX} bytes`)
  .regex(/^0x(?:[0-9a-fA-F]{2})*$/, "must be 0x and hex digits")
  .transform((text) => text as Hex);

/** A facilitator may take any way of paying for the payment, so one that is there counts, whatever its value. */
const otherWay = z.never("must be absent, because a payment has one transfer method").optional();

/*
 * Some clients write members into `payload` that the protocol does not have. They are ignored, and no facilitator gets them
 * (`forFacilitator`). Each way of paying is strict inside.
 */
function payloadOf(method: AssetTransferMethod) {
  const { member, transfer } = method;
  const members = Object.values(METHODS).map((each) => each.member);
  const others = members.filter((other) => other !== member).map((other) => [other, otherWay] as const);
  return z
    .object({ signature, ...Object.fromEntries(others), [member]: transfer })
    .transform(({ signature, ...ways }: { signature: Hex; [member: string]: unknown }) => {
      return { method, signature, authorization: ways[member] as SignedTransfer };
    });
}

const text = z.string().max(2000);

/** A client that sends an identifier counts on being charged once, so an entry that is none is refused, not ignored. */
const paymentIdentifier = z.looseObject({
  info: z.looseObject({
    required: z.boolean(),
    id: z
      .string()
      .refine(isPaymentIdentifier, "must be 16 to 128 letters, digits, hyphens and underscores")
      .optional(),
  }),
});

/*
 * Clients write more around `payload` than the protocol has, so what is unknown there is left to the facilitator, which gets it as it
 * came. What is signed, and what we match, is strict.
 */
const v2 = {
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
  extensions: z.looseObject({ [PAYMENT_IDENTIFIER]: paymentIdentifier.optional() }).nullish(),
};

const v1 = {
  x402Version: z.literal(1),
  scheme: text,
  network: text,
  /** Some clients name the token, which version 1 leaves to the signature. */
  asset: text.nullish(),
};

const toV2 = (method: AssetTransferMethod) => z.looseObject({ ...v2, payload: payloadOf(method) });
const toV1 = (method: AssetTransferMethod) => z.looseObject({ ...v1, payload: payloadOf(method) });

/** The schemas of a scheme's payments by the member of `payload`, and the one for a payload with none of these members. */
type Schemas<Schema> = { byMember: ReadonlyMap<string, Schema>; otherwise: Schema };

function schemasOf({ methods, methodIn }: Scheme) {
  const all = Object.values(methods);
  const inV1 = all.filter(({ hasV1 }) => hasV1);
  return {
    v2: { byMember: new Map(all.map((each) => [each.member, toV2(each)])), otherwise: toV2(methodIn({})) },
    v1: { byMember: new Map(inV1.map((each) => [each.member, toV1(each)])), otherwise: toV1(methodIn({})) },
  };
}

const BY_SCHEME = new Map<unknown, ReturnType<typeof schemasOf>>(
  Object.entries(SCHEMES).map(([name, scheme]) => [name, schemasOf(scheme)]),
);
const BY_DEFAULT = schemasOf(DEFAULT_SCHEME);

type Signed = z.output<ReturnType<typeof payloadOf>>;

/** What a payment's header says: of the right shape, and not yet believed. */
export type DecodedPayment = {
  signature: Hex;
  /** The payment for the facilitator: as sent, with only what is signed in `payload`. */
  raw: object;
  /** The name that the request's `Idempotency-Key` stands for, or why it is none. That is thrown only if the payment turns out to be new. */
  idempotencyKey: string | undefined | AppError;
  method: AssetTransferMethod;
  /** The transfer that the payer signs. The nonce of a permit is a word here. */
  authorization: SignedTransfer;
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
      accepted: z.output<typeof v2.accepted>;
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
  const schema = schemaIn(schemasFor(isTable(raw.accepted) ? raw.accepted["scheme"] : undefined).v2, raw);
  const { accepted, resource, extensions, payload: signed, ...beside } = checked(schema, raw);
  assertAgreement(beside, accepted);
  return {
    version: 2,
    ...signed,
    accepted,
    resourceUrl: resource?.url,
    identifier: extensions?.[PAYMENT_IDENTIFIER]?.info.id,
    raw: forFacilitator(raw, signed.method),
  } as const;
}

function schemasFor(scheme: unknown) {
  return BY_SCHEME.get(scheme) ?? BY_DEFAULT;
}

function schemaIn<Schema>({ byMember, otherwise }: Schemas<Schema>, { payload }: Raw) {
  const found = [...byMember].find(([member]) => isTable(payload) && Object.hasOwn(payload, member));
  return found?.[1] ?? otherwise;
}

/**
 * The payment with a `payload` of the signature and the one way of paying, both as sent. A member that we ignore could mean something to
 * a facilitator.
 */
function forFacilitator(raw: Raw, { member }: AssetTransferMethod): object {
  const { signature, [member]: way } = raw.payload as Record<string, unknown>;
  return { ...raw, payload: { signature, [member]: way } };
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
  const schema = schemaIn(schemasFor(raw.scheme).v1, raw);
  const { scheme, network, asset, payload: signed } = checked(schema, raw);
  return {
    version: 1,
    ...signed,
    scheme,
    network,
    asset: asset ?? undefined,
    identifier: identifierV1(network, signed),
    raw: forFacilitator(raw, signed.method),
  } as const;
}

/** No client's own identifier has a colon. */
function identifierV1(network: string, { authorization, signature }: Signed): string {
  const { from, nonce } = authorization;
  return `v1:${sha256Hex(Buffer.from(`${network} ${from} ${nonce} ${signature}`.toLowerCase()))}`;
}

/** What an `Idempotency-Key` may be: visible ASCII. It is not parsed, so the quotes of the IETF's draft are part of it. */
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;

/**
 * The name that a request's `Idempotency-Key` stands for: a key in the form of a payment identifier is that identifier. No identifier has
 * a colon, so no other key stands for one. `request.malformed` if it is no key.
 */
function readIdempotencyKey(req: IncomingMessage): string | undefined | AppError {
  const keys = headerValues(req, "idempotency-key");
  const [key] = keys;
  if (key === undefined) return undefined;
  if (keys.length === 1 && isPaymentIdentifier(key)) return key;
  if (keys.length === 1 && IDEMPOTENCY_KEY.test(key)) return `key:${sha256Hex(Buffer.from(key))}`;
  const detail = "Idempotency-Key must appear once, with 1 to 255 visible ASCII characters";
  return AppError.public("request.malformed", detail);
}

type Raw = { payload?: unknown; accepted?: unknown; scheme?: unknown };

function decode(header: string): Raw {
  const decoded = decodeBase64Json(header);
  if ("problem" in decoded) throw malformed(`the payment header ${decoded.problem}`);
  for (const name of Object.keys(decoded.value)) {
    const known = MEMBERS.get(folded(name));
    if (known !== undefined && known !== name) throw malformed(`${name}: must be written ${known}`);
  }
  return decoded.value;
}

/** Names of a payment's members. Go's JSON decoder takes such a name in any case, and the last one counts. */
const MEMBERS = new Map(
  [...Object.keys(v2), ...Object.keys(v1), "payload"].map((name) => [folded(name), name]),
);

/** Upper case first: the long s and the sign of Kelvin fold to `s` and `k`. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

function checked<Schema extends z.ZodType>(schema: Schema, raw: object): z.output<Schema> {
  const result = schema.safeParse(raw, { error: messageForJson });
  if (result.success) return result.data;
  throw malformed(firstProblem(result.error, "the payment"), result.error);
}

function malformed(detail: string, cause?: unknown): AppError {
  return AppError.public("payment.malformed", detail, { cause });
}

/** A payment, and what its signature tells; nothing is known yet of the offer that it pays. */
export type SignedPayment = {
  /** Undefined if it is of version 1, and does not tell in which of the configured tokens it is paid. */
  callId: string | undefined;
  /** Lower case. */
  payer: `0x${string}`;
  /**
   * Whether the payer has signed it. False if the signature is not that of the payer's key: the payer's contract may take it, and this
   * becomes true once it has said so.
   */
  isSignedByPayer: boolean;
  /** How a payment is recognised that a contract has signed, and whose contract may say something else by now. */
  signedSha256: string | undefined;
  decoded: DecodedPayment;
  /** The accepted token that it pays with, or the refusal. That is thrown only if the payment turns out to be new. */
  token: Token | AppError;
};

/** A payment in an accepted token. */
export type AcceptedPayment = SignedPayment & {
  callId: string;
  token: Token;
  decoded: { idempotencyKey: string | undefined };
};

/**
 * Tells which call a payment is, and recovers who signed it. The same payment is the same call on every replica, for ever:
 * also after its token was changed in the configuration or removed from it. Of version 1 the signer is unknown then. Throws
 * `payment.not_offered` and `payment.signature_invalid` if a payment of version 2 fits no token.
 */
export function identifyPayment(decoded: DecodedPayment, tokens: readonly Token[]): SignedPayment {
  const { signature, authorization } = decoded;
  const payer = authorization.from.toLowerCase() as `0x${string}`;
  const candidates = tokens.filter((token) => isPaidIn(token, decoded));
  const described = describedDomain(decoded);
  const isSigned = (domain: Domain) => recoverAddress(digestOf(decoded, domain), signature) === payer;
  const toSigned = (
    domain: Domain | undefined,
    token: Token | AppError,
    isSignedByPayer: boolean,
  ): SignedPayment => {
    const callId = domain && callIdIn(domain, decoded);
    const signedSha256 = domain && !isSignedByPayer ? sha256Hex(signedBytes(decoded, domain)) : undefined;
    return { callId, payer, isSignedByPayer, signedSha256, decoded, token };
  };

  const paid = candidates.find((token) => token.method === decoded.method && isSigned(token));
  if (paid !== undefined) return toSigned(paid, paid, true);
  const token = unrecovered(decoded, candidates);
  if (described !== undefined && isSigned(described)) {
    const refusal =
      token instanceof AppError ? token : notSigned("it is for another name or version of the token");
    return toSigned(described, refusal, true);
  }
  // As the payment says it first: what a token is called in the configuration may change.
  const domain = described ?? (token instanceof AppError ? undefined : token);
  if (decoded.version === 2 && domain === undefined) throw token;
  return toSigned(domain, token, false);
}

/** Throws what was found while the payment was read, if its token is not an accepted one, or its idempotency key is none. */
export function inAcceptedToken(signed: SignedPayment): AcceptedPayment {
  const { token, callId, decoded } = signed;
  const { idempotencyKey } = decoded;
  if (token instanceof AppError) throw token;
  if (idempotencyKey instanceof AppError) throw idempotencyKey;
  if (callId === undefined) throw notAccepted();
  return { ...signed, callId, token, decoded: { ...decoded, idempotencyKey } };
}

/** Version 1 need not name an asset: it means the token on its network whose domain the payer signed. */
function isPaidIn(token: Token, decoded: DecodedPayment): boolean {
  const { network, asset } = decoded.version === 1 ? decoded : decoded.accepted;
  const isOnNetwork = (decoded.version === 1 ? token.v1Network : token.network) === network;
  return isOnNetwork && (asset === undefined || token.asset.toLowerCase() === asset.toLowerCase());
}

/** The token that a contract may have signed for, since no key has. */
function unrecovered(decoded: DecodedPayment, candidates: readonly Token[]): Token | AppError {
  const offered = candidates.filter(({ v1 }) => decoded.version === 2 || v1);
  const [first, ...others] = offered;
  if (first === undefined) return notAccepted();
  if (others.length > 0) return notSigned("version 1 does not say which token a contract pays in");
  if (first.method === decoded.method) return first;
  const detail = `this token must be paid by ${first.method.name}, as extra in its offer says`;
  return AppError.public("payment.not_offered", detail);
}

/** What a payment's signature and id depend on. */
type Domain = { chainId: number; asset: string; separator: string };

/** The token as a payment of version 2 describes it itself: enough to find the payment again, and for nothing else. */
function describedDomain(decoded: DecodedPayment): Domain | undefined {
  if (decoded.version === 1) return undefined;
  const { network, asset, extra } = decoded.accepted;
  if (!/^eip155:[1-9]\d{0,15}$/.test(network) || !isAddress(asset)) return undefined;
  const chainId = chainIdOf(network);
  const separator = decoded.method.separatorOf({ chainId, asset, extra });
  return separator === undefined ? undefined : { chainId, asset, separator };
}

function callIdIn({ chainId, asset }: Domain, { method, authorization }: DecodedPayment): string {
  const { from: payer, nonce } = authorization;
  return paymentCallId({ chainId, method: method.name, asset, payer, nonce });
}

/** The 32 bytes that the payer signs. */
export function digestOf(
  { method, authorization }: Pick<DecodedPayment, "method" | "authorization">,
  { asset, separator }: Pick<Domain, "asset" | "separator">,
): Uint8Array {
  return method.digest({ asset: asset as Hex, ...authorization }, separator);
}

function signedBytes(decoded: DecodedPayment, domain: Domain): Buffer {
  return Buffer.concat([digestOf(decoded, domain), Buffer.from(decoded.signature.slice(2), "hex")]);
}

function notAccepted(): AppError {
  return AppError.public("payment.not_offered", "this token is not accepted on this network");
}

/** `why` is what the payer's contract has to do with it. */
export function notSigned(why: string): AppError {
  const detail = `the signature is not by the payer for the token's name, version, chain and address: ${why}`;
  return AppError.public("payment.signature_invalid", detail);
}
