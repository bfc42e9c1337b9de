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
/** The signature of a key has 65 bytes. Each contract defines the form of its own signatures. */
const signature = z
  .string()
  .max(2 + 2 * SIGNATURE_BYTES_MAX, `is over ${SIGNATURE_BYTES_MAX} bytes`)
  .regex(/^0x(?:[0-9a-fA-F]{2})*$/, "must be 0x and hex digits")
  .transform((text) => text as Hex);

/** Refuses the member of another transfer method, even if it is null: a facilitator might read that member as the payment. */
const absentMember = z.never("must be absent, because a payment has one transfer method").optional();

/*
 * Some clients write members into `payload` that the protocol does not have. The gateway ignores them, and no facilitator gets them
 * (`forFacilitator`). Unknown members of the transfer itself are refused.
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

/** A client that sends an identifier relies on being charged once. So an invalid identifier is refused, not ignored. */
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
 * Clients write members beside `payload` that the protocol does not have. The gateway passes them to the facilitator unchanged. The signed
 * members, and those that the gateway compares with its offer, are checked strictly.
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

/** Schemas of a scheme's payments, by the member of `payload`. `otherwise` is for a payload with none of these members. */
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

/** A payment's header with the right shape. Nothing in it is verified yet. */
export type DecodedPayment = {
  signature: Hex;
  /** Payment for the facilitator, as sent, with only the signature and the signed transfer in `payload`. */
  raw: object;
  /**
   * Name of the purchase, made from the request's `Idempotency-Key`, or the error of an invalid key. The error is thrown only if the
   * payment is new.
   */
  idempotencyKey: string | undefined | AppError;
  method: AssetTransferMethod;
  /** Transfer that the payer signs. The nonce of a permit is converted to a 32-byte word in hex. */
  authorization: SignedTransfer;
} & (
  | {
      version: 1;
      scheme: string;
      network: string;
      asset: string | undefined;
      /**
       * Hash by which the payment is found even after its token was removed from the configuration. It is needed because version 1 does not
       * name the token.
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
 * Decodes the payment of a request strictly. Throws `payment.ambiguous` if there are two, and `payment.malformed` if the payment cannot be
 * read.
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
 * Returns the payment with only the signature and one transfer in `payload`, both as sent. A member that the gateway ignores could mean
 * something to a facilitator.
 */
function forFacilitator(raw: Raw, { member }: AssetTransferMethod): object {
  const { signature, [member]: transfer } = raw.payload as Record<string, unknown>;
  return { ...raw, payload: { signature, [member]: transfer } };
}

/**
 * Some clients repeat the scheme and the network beside `accepted`. If the values differ, the gateway and a facilitator could use different
 * ones, so the payment is refused.
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

/** Refuses a payment of the other version and names the header for it. The schema refuses all other values. */
function assertVersion({ x402Version }: Raw, version: 1 | 2): void {
  if (x402Version === version || (x402Version !== 1 && x402Version !== 2)) return;
  const header = x402Version === 2 ? "PAYMENT-SIGNATURE" : "X-PAYMENT";
  throw malformed(`x402Version: a payment of version ${x402Version} belongs in the header ${header}`);
}

/** Makes the identifier of a version 1 payment. It has a colon, so no identifier of a client is equal to it. */
function identifierV1(network: string, { authorization, signature }: Signed): string {
  const { from, nonce } = authorization;
  return `v1:${sha256Hex(Buffer.from(`${network} ${from} ${nonce} ${signature}`.toLowerCase()))}`;
}

/** Valid `Idempotency-Key`: visible ASCII. The key is not parsed, so the quotes that the IETF draft requires are part of it. */
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;

/**
 * Makes the purchase name from a request's `Idempotency-Key`. A key in the form of a payment identifier is used as that identifier. Any
 * other name has a colon, which no identifier has. Returns the error `request.malformed` for an invalid key.
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
 * Names of a payment's members, by their folded form. Go's JSON decoder, which a facilitator may use, accepts a name in any
 * letter case. So a name in another case is refused: the facilitator could read it instead of the member that the gateway
 * checked.
 */
const MEMBERS = new Map(
  [...Object.keys(v2), ...Object.keys(v1), "payload"].map((name) => [foldCase(name), name]),
);

/** Folds the letter case of a name. Upper case comes first, because it turns the long s (ſ) into `S`. Lower case alone would keep it. */
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

/** A payment with its signature evaluated. It is not compared with an offer yet. */
export type SignedPayment = {
  /** Undefined for a payment of version 1 whose token cannot be found among the configured ones. */
  callId: string | undefined;
  /** Lower case. */
  payer: `0x${string}`;
  /**
   * Whether the payer has signed the payment. If the payer's key did not make the signature, this becomes true once the payer's contract
   * has accepted it.
   */
  isSignedByPayer: boolean;
  /** Hash of a payment that a contract may have signed. It identifies the payment even if that contract no longer accepts the signature. */
  signedSha256: string | undefined;
  decoded: DecodedPayment;
  /** Accepted token of the payment, or the error to throw. The error is thrown only if the payment is new. */
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
 * Finds a payment's call id and the payer who signed. A payment of version 2 describes its token. So such a payment has the same call id
 * and signer on every replica, even after its token was changed in the configuration or removed from it. A payment of version 1 has no such
 * description: after a change of the token its signer is unknown, and perhaps its call id too. Then only its `identifier` finds it. Throws
 * `payment.not_offered` and `payment.signature_invalid` if a payment of version 2 matches no token.
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
  // The payment's own description of the token comes first, because the configured name of a token may change.
  const domain = described ?? (token instanceof AppError ? undefined : token);
  if (decoded.version === 2 && domain === undefined) throw token;
  return toSigned(domain, token, false);
}

/** Returns the payment with its token. Throws the stored error if the token is not accepted or the idempotency key is invalid. */
export function inAcceptedToken(signed: SignedPayment): AcceptedPayment {
  const { token, callId, decoded } = signed;
  const { idempotencyKey } = decoded;
  if (token instanceof AppError) throw token;
  if (idempotencyKey instanceof AppError) throw idempotencyKey;
  if (callId === undefined) throw notAccepted(decoded);
  return { ...signed, callId, token, decoded: { ...decoded, idempotencyKey } };
}

/**
 * Whether the payment may be in this token. A payment of version 1 need not name an asset. Without one, it may be in any token on its
 * network; the signature shows in which one.
 */
function isPaidIn(token: Token, decoded: DecodedPayment): boolean {
  const { network, asset } = decoded.version === 1 ? decoded : decoded.accepted;
  const isOnNetwork = (decoded.version === 1 ? token.v1Network : token.network) === network;
  return isOnNetwork && (asset === undefined || token.asset.toLowerCase() === asset.toLowerCase());
}

/** Finds the token for a payment that no key has signed. A contract may have signed it. */
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
 * Returns the domain of the token as a version 2 payment describes it. This domain only serves to find a known payment. It never makes a
 * new payment acceptable.
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

/** Returns the error for a payment whose signature is not shown to be the payer's. `why` is the detail of the message. */
export function notSigned(why: string): AppError {
  const detail = `the signature is not by the payer for the token's name, version, chain and address: ${why}`;
  return AppError.public("payment.signature_invalid", detail);
}
