import type { IncomingMessage } from "node:http";
import { extractPaymentIdentifier, isValidPaymentId } from "@x402/extensions/payment-identifier";
import { z } from "zod";
import { AppError } from "../../../shared/errors/app-error.ts";
import { type Address, isAddress } from "../../../shared/ethereum/address.ts";
import { UINT256_MAX } from "../../../shared/ethereum/encoding.ts";
import type { Authorization } from "../../../shared/ethereum/typed-data.ts";
import { headerValues } from "../../../shared/http/headers.ts";

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
  .regex(/^(0|[1-9]\d{0,77})$/)
  .transform((text) => BigInt(text))
  .refine((value) => value <= UINT256_MAX);

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
      .regex(/^0x[0-9a-fA-F]{64}$/)
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

type Decoded = {
  authorization: Authorization;
  signature: string;
  /** As sent, for the facilitator. */
  raw: object;
};

/** A payment as its header says, of the right shape and not yet believed. */
export type DecodedPayment = Decoded &
  (
    | { version: 1; scheme: string; network: string }
    | {
        version: 2;
        accepted: z.output<typeof V2>["accepted"];
        resourceUrl: string | undefined;
        identifier: string | undefined;
      }
  );

/** Whether a request brings a payment, good or bad. */
export function hasPayment({ headers }: IncomingMessage): boolean {
  return headers[V2_HEADER] !== undefined || headers[V1_HEADER] !== undefined;
}

/**
 * The payment of a request, decoded strictly. Throws `payment.ambiguous` for two payments and
 * `payment.malformed` for anything that is not one.
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

/** Who sends one counts on being charged once: one that cannot be taken is refused, not ignored. */
function identifierIn(raw: object): string | undefined {
  const payload = raw as Parameters<typeof extractPaymentIdentifier>[0];
  const identifier = extractPaymentIdentifier(payload, false) ?? undefined;
  if (identifier === undefined || isValidPaymentId(identifier)) return identifier;
  throw malformed("the payment-identifier must be 16 to 128 letters, digits, hyphens and underscores");
}

function decodeV1(header: string): DecodedPayment {
  const raw = decode(header);
  const { scheme, network, payload: signed } = checked(V1, raw);
  return { version: 1, ...signed, scheme, network, raw };
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
  const result = schema.safeParse(raw);
  if (result.success) return result.data;
  const first = result.error.issues[0];
  throw malformed(`${first?.path.join(".") || "the payment"}: ${first?.message}`, result.error);
}

function malformed(detail: string, cause?: unknown): AppError {
  return AppError.public("payment.malformed", detail, { cause });
}
