import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { isAddress } from "../../../shared/chain/address.ts";
import { chainIdOf, type Hex, isEvmNetwork } from "../../../shared/chain/encoding.ts";
import { recoverAddress } from "../../../shared/chain/signatures.ts";
import { isTable } from "../../../shared/config/fields.ts";
import { firstProblem, messageForJson } from "../../../shared/config/problem.ts";
import { decodeBase64Json } from "../../../shared/http/base64-json.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Token } from "../offer/catalog.ts";
import type { SentApproval } from "../schemes/gas-sponsoring.ts";
import { DEFAULT_SCHEME, METHODS, SCHEMES } from "../schemes/registry.ts";
import type { AssetTransferMethod, Scheme, SignedTransfer } from "../schemes/scheme.ts";
import { chainIdOfV1 } from "../schemes/v1-networks.ts";
import { isPaymentIdentifier, PAYMENT_IDENTIFIER } from "./payment-identifier.ts";

const V2_HEADER = "payment-signature";
const V1_HEADER = "x-payment";

const SIGNATURE_BYTES_MAX = 4096;
/**
 * A signature by a key has 65 bytes. A signature for a contract can have any length and form, because the contract defines it.
 */
const signature = z
  .string()
  .max(2 + 2 * SIGNATURE_BYTES_MAX, `is over ${SIGNATURE_BYTES_MAX} bytes`)
  .regex(/^0x(?:[0-9a-fA-F]{2})*$/, "must be 0x and hex digits")
  .transform((text) => text as Hex);

/**
 * Schema for the members of the other transfer methods, which must be absent. Even null is refused, because a facilitator might
 * read such a member as the payment.
 */
const absentMember = z.never("must be absent, because a payment has one transfer method").optional();

/*
 * Some clients write members into `payload` that the protocol does not have. The gateway ignores them, and does not pass them to
 * the facilitator (`forFacilitator`). But unknown members of the signed transfer itself are refused.
 */
function payloadOf(method: AssetTransferMethod) {
  const { member, transfer } = method;
  const members = Object.values(METHODS).map((each) => each.member);
  const others = members.filter((other) => other !== member).map((other) => [other, absentMember] as const);
  return z
    .object({ signature, ...Object.fromEntries(others), [member]: transfer })
    .transform(({ signature, ...rest }: { signature: Hex; [member: string]: unknown }) => {
      return { method, signature, authorization: rest[member] as SignedTransfer };
    });
}

const text = z.string().max(2000);

/**
 * Schema of the payment identifier. A client that sends one relies on being charged only once for it. So an invalid identifier is
 * refused, not ignored.
 */
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
 * Some clients write members beside `payload` that the protocol does not have. The gateway passes them to the facilitator
 * unchanged. The members that the payer signs, and those that the gateway compares with its offer, are checked strictly.
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
  /** Version 1 does not name the token: only the signature shows it. Some clients name it anyway. */
  asset: text.nullish(),
};

const toV2 = (method: AssetTransferMethod) => z.looseObject({ ...v2, payload: payloadOf(method) });
const toV1 = (method: AssetTransferMethod) => z.looseObject({ ...v1, payload: payloadOf(method) });

/**
 * Schemas of a scheme's payments. `byMember` has them by the member of `payload` that has the transfer. `otherwise` is for a
 * payload with none of these members.
 */
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

/** Content of a payment header with the right members and types. Neither its signature nor its values are verified yet. */
export type DecodedPayment = {
  signature: Hex;
  /**
   * The payment as the client sent it, for the facilitator. Its `payload` is reduced to the signature and the signed transfer.
   */
  raw: object;
  /**
   * Name under which the payer wants to make only one purchase, from the request's `Idempotency-Key`. If that key is invalid,
   * this is the error to throw. It is thrown only if the payment is new, so that a repeat still gets its first answer.
   */
  idempotencyKey: string | undefined | AppError;
  method: AssetTransferMethod;
  /** Transfer that the payer signs. The nonce of a Permit2 transfer, which is a number, is converted to 32 bytes in hex. */
  authorization: SignedTransfer;
} & (
  | {
      version: 1;
      scheme: string;
      network: string;
      asset: string | undefined;
      /**
       * Hash over the payment, by which its record is found. Version 1 does not name the token, so the call id cannot be computed
       * once the token was removed from the configuration. The hash still can.
       */
      identifier: string;
    }
  | {
      version: 2;
      accepted: z.output<typeof v2.accepted>;
      resourceUrl: string | undefined;
      /** Payment identifier that the client chose. */
      identifier: string | undefined;
    }
);

/** Whether a request has a payment header, valid or not. */
export function hasPayment({ headers }: IncomingMessage): boolean {
  return headers[V2_HEADER] !== undefined || headers[V1_HEADER] !== undefined;
}

/**
 * Decodes the payment of a request strictly. Throws `payment.ambiguous` if the request has two payments, and `payment.malformed`
 * if its payment cannot be read.
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
  assertVersion(raw, 2);
  const schema = schemaIn(schemasFor(isTable(raw.accepted) ? raw.accepted["scheme"] : undefined).v2, raw);
  const { accepted, resource, extensions, payload: signed, ...beside } = parseStrictly(schema, raw);
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
 * Returns the payment as the client sent it, but with only the signature and one transfer in `payload`. Other members of
 * `payload`, which the gateway ignores, could mean something to a facilitator.
 */
function forFacilitator(raw: Raw, { member }: AssetTransferMethod): object {
  const { signature, [member]: transfer } = raw.payload as Record<string, unknown>;
  return { ...raw, payload: { signature, [member]: transfer } };
}

/**
 * Throws `payment.malformed` if the scheme or network beside `accepted` differs from the one in it. Some clients repeat them
 * there. With different values, the gateway and a facilitator could use different ones.
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
  assertVersion(raw, 1);
  const schema = schemaIn(schemasFor(raw.scheme).v1, raw);
  const { scheme, network, asset, payload: signed } = parseStrictly(schema, raw);
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

/**
 * Throws `payment.malformed` for a payment of the other version, with the name of the header for that version. Any other value of
 * `x402Version` passes here, and the schema refuses it later.
 */
function assertVersion({ x402Version }: Raw, version: 1 | 2): void {
  if (x402Version === version || (x402Version !== 1 && x402Version !== 2)) return;
  const header = x402Version === 2 ? "PAYMENT-SIGNATURE" : "X-PAYMENT";
  throw malformed(`x402Version: a payment of version ${x402Version} belongs in the header ${header}`);
}

/**
 * Makes the identifier of a version 1 payment. It has a colon, which no identifier that a client chooses can have, so the two
 * kinds are never equal.
 */
function identifierV1(network: string, { authorization, signature }: Signed): string {
  const { from, nonce } = authorization;
  return `v1:${sha256Hex(Buffer.from(`${network} ${from} ${nonce} ${signature}`.toLowerCase()))}`;
}

/**
 * Valid `Idempotency-Key`: visible ASCII. The IETF draft puts quotation marks around the key. The gateway does not parse them, so
 * they are part of the key.
 */
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;

/**
 * Makes the name of the purchase from a request's `Idempotency-Key`. A key in the form of a payment identifier names the same
 * purchase as that identifier. Any other key gives a name with a colon, which no identifier has. Returns the error
 * `request.malformed` for an invalid key.
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

type Raw = { x402Version?: unknown; payload?: unknown; accepted?: unknown; scheme?: unknown };

function decode(header: string): Raw {
  const decoded = decodeBase64Json(header);
  if ("problem" in decoded) throw malformed(`the payment header ${decoded.problem}`);
  for (const name of Object.keys(decoded.value)) {
    const known = MEMBERS.get(foldCase(name));
    if (known !== undefined && known !== name) throw malformed(`${name}: must be written ${known}`);
  }
  return decoded.value;
}

/**
 * Names of a payment's members, by their lower-case form (`foldCase`). A facilitator may use Go's JSON decoder, which accepts a
 * name in any letter case. It could read a member such as `Payload` instead of the `payload` that the gateway has checked. So a
 * name in another case is refused.
 */
const MEMBERS = new Map(
  [...Object.keys(v2), ...Object.keys(v1), "payload"].map((name) => [foldCase(name), name]),
);

/**
 * Converts a name to one letter case, for comparisons. It is converted to upper case first, because this turns the long s (ſ)
 * into `S`, as Go does. Lower case alone would keep the long s.
 */
function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

function parseStrictly<Schema extends z.ZodType>(schema: Schema, raw: object): z.output<Schema> {
  const result = schema.safeParse(raw, { error: messageForJson });
  if (result.success) return result.data;
  throw malformed(firstProblem(result.error, "the payment"), result.error);
}

function malformed(detail: string, cause?: unknown): AppError {
  return AppError.public("payment.malformed", detail, { cause });
}

/** A payment whose signer was recovered from its signature. It is not compared with an offer yet. */
export type SignedPayment = {
  /**
   * Id of the call that the payment buys. Undefined for a payment of version 1 if none of the configured tokens can be its token.
   */
  callId: string | undefined;
  /** Lower case. */
  payer: `0x${string}`;
  /**
   * Whether the payer's signature is confirmed. It is at once if the payer's key made it. Otherwise this becomes true when the
   * payer's contract has accepted the signature.
   */
  isSignedByPayer: boolean;
  /**
   * Hash of the signed text and the signature, if the payer's key did not make the signature. A repeat of the payment is
   * recognized by this hash, even if the payer's contract no longer accepts the signature.
   */
  signedSha256: string | undefined;
  decoded: DecodedPayment;
  /**
   * Accepted token of the payment, or the error that says why it has no such token. The error is thrown only if the payment is new, so
   * that a repeat still gets its first answer.
   */
  token: Token | AppError;
};

/** A payment in an accepted token. */
export type AcceptedPayment = SignedPayment & {
  callId: string;
  token: Token;
  decoded: { idempotencyKey: string | undefined };
  /** Approval of Permit2 that came with the payment, once it was read. */
  approval?: SentApproval | undefined;
};

/**
 * Finds a payment's call id, and whether the payer's key signed it. A payment of version 2 describes its token. So its call id
 * and its signer are the same at every replica, even after the token was changed in the configuration or removed from it. A
 * payment of version 1 does not describe its token. After such a change its signer cannot be recovered, and perhaps its call id
 * is unknown too. Then only its `identifier` finds it. Throws `payment.not_offered` and `payment.signature_invalid` if a payment
 * of version 2 matches no token.
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
  const token = tokenOfContractPayment(decoded, candidates);
  if (described !== undefined && isSigned(described)) {
    const refusal =
      token instanceof AppError ? token : notSigned("it is for another name or version of the token");
    return toSigned(described, refusal, true);
  }
  // The payment's own description of the token is used first. It gives the same call id even after the token's configured name
  // has changed.
  const domain = described ?? (token instanceof AppError ? undefined : token);
  if (decoded.version === 2 && domain === undefined) throw token;
  return toSigned(domain, token, false);
}

/**
 * Returns a new payment with its accepted token. Throws the stored error if the token is not accepted or the idempotency key is
 * invalid.
 */
export function inAcceptedToken(signed: SignedPayment): AcceptedPayment {
  const { token, callId, decoded } = signed;
  const { idempotencyKey } = decoded;
  if (token instanceof AppError) throw token;
  if (idempotencyKey instanceof AppError) throw idempotencyKey;
  if (callId === undefined) throw notAccepted(decoded);
  return { ...signed, callId, token, decoded: { ...decoded, idempotencyKey } };
}

/**
 * Whether the payment may be in this token. A payment of version 1 need not name its token. Then it may be in any token on its
 * network, until the signature shows in which one.
 */
function isPaidIn(token: Token, decoded: DecodedPayment): boolean {
  const { network, asset } = decoded.version === 1 ? decoded : decoded.accepted;
  const isOnNetwork = (decoded.version === 1 ? token.v1Network : token.network) === network;
  return isOnNetwork && (asset === undefined || token.asset.toLowerCase() === asset.toLowerCase());
}

/**
 * Finds the token of a payment that the payer's key has not signed, but that the payer's contract may accept. The signature
 * cannot show the token then.
 */
function tokenOfContractPayment(decoded: DecodedPayment, candidates: readonly Token[]): Token | AppError {
  const offered = candidates.filter(({ v1 }) => decoded.version === 2 || v1);
  const [first, ...others] = offered;
  if (first === undefined) return notAccepted(decoded);
  if (others.length > 0) return notSigned("version 1 does not say which token a contract pays in");
  if (first.method === decoded.method) return first;
  const detail = `this token must be paid by ${first.method.name}, as extra in its offer says`;
  return AppError.public("payment.not_offered", detail);
}

/** Values of a token from which a payment's digest and call id are computed. */
type Domain = { chainId: number; asset: string; separator: string };

/**
 * Returns the domain of the token from the description that a payment of version 2 contains. It is used only to find a payment
 * that is already known. A new payment must match a configured token.
 */
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

/** Returns the 32 bytes that the payer signs. */
export function digestOf(
  { method, authorization }: Pick<DecodedPayment, "method" | "authorization">,
  { asset, separator }: Pick<Domain, "asset" | "separator">,
): Uint8Array {
  return method.digest({ asset: asset as Hex, ...authorization }, separator);
}

function signedBytes(decoded: DecodedPayment, domain: Domain): Buffer {
  return Buffer.concat([digestOf(decoded, domain), Buffer.from(decoded.signature.slice(2), "hex")]);
}

function notAccepted(decoded: DecodedPayment): AppError {
  const isChain = decoded.version === 1 || isEvmNetwork(decoded.accepted.network);
  const detail = isChain
    ? "this token is not accepted on this network"
    : "accepted.network must be an EVM chain, such as eip155:8453: no other network is accepted";
  return AppError.public("payment.not_offered", detail);
}

/** Returns the error for a payment whose signature is not known to be the payer's. `why` is a part of the error's public text. */
export function notSigned(why: string): AppError {
  const detail = `the signature is not by the payer for the token's name, version, chain and address: ${why}`;
  return AppError.public("payment.signature_invalid", detail);
}
