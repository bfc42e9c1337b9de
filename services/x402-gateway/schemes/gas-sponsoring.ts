import { z } from "zod";
import type { Hex } from "../../../shared/chain/encoding.ts";
import { PERMIT2 } from "../../../shared/chain/permit2.ts";
import type { SponsoredApproval } from "../../../shared/chain/sponsored-approval.ts";
import { firstProblem, messageForJson } from "../../../shared/config/problem.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { address, type GasSponsoring, uint256 } from "./scheme.ts";

/*
 * Reads and writes the extensions of x402 by which a facilitator pays the gas of an approval. The payer signs that the contract
 * Permit2 may move its token, and the facilitator sends this approval to the chain. The approval is not part of the payment's
 * identity: a repeat of the payment may have another approval, or none.
 */

/** Limit on the size of a signed approval transaction. A transaction that calls `approve` has about 180 bytes. */
const TRANSACTION_BYTES_MAX = 512;

const common = {
  from: address,
  asset: address,
  spender: address.refine(
    (spender) => spender.toLowerCase() === PERMIT2.toLowerCase(),
    `must be Permit2, ${PERMIT2}`,
  ),
  amount: uint256,
  version: z.string().regex(/^1(?:\.\d{1,3}){0,2}$/, "must be 1"),
};

const hexOf = (pattern: RegExp, bytes: string) =>
  z
    .string()
    .regex(pattern, `must be 0x and the hex digits of ${bytes} bytes`)
    .transform((text) => text as Hex);

const Permit = z.object({
  ...common,
  nonce: uint256,
  deadline: uint256,
  signature: hexOf(/^0x[0-9a-fA-F]{130}$/, "65"),
});

const Transaction = z.object({
  ...common,
  signedTransaction: hexOf(
    new RegExp(`^0x(?:[0-9a-fA-F]{2}){1,${TRANSACTION_BYTES_MAX}}$`),
    `at most ${TRANSACTION_BYTES_MAX}`,
  ),
});

/**
 * Supported extensions. `signed` names the member that only the payer can make. If it is absent, the payment has no approval: the
 * client has only returned the gateway's declaration.
 */
const EXTENSIONS = {
  eip2612GasSponsoring: {
    kind: "permit",
    description: "The facilitator submits an EIP-2612 permit for Permit2 and pays its gas.",
    info: Permit,
    signed: "signature",
  },
  erc20ApprovalGasSponsoring: {
    kind: "transaction",
    description: "The facilitator submits a signed approval of Permit2 and pays its gas.",
    info: Transaction,
    signed: "signedTransaction",
  },
} as const satisfies Record<GasSponsoring, object>;

/** Declaration of each extension, for the 402. A client that uses an extension returns it with further members in `info`. */
export const DECLARATIONS: Readonly<Record<GasSponsoring, object>> = {
  eip2612GasSponsoring: toDeclaration(EXTENSIONS.eip2612GasSponsoring),
  erc20ApprovalGasSponsoring: toDeclaration(EXTENSIONS.erc20ApprovalGasSponsoring),
};

function toDeclaration({ info, description }: (typeof EXTENSIONS)[GasSponsoring]) {
  const { properties, required } = z.toJSONSchema(info, { io: "input" });
  return { info: { description, version: "1" }, schema: { type: "object", properties, required } };
}

/** An approval that came with a payment. */
export type SentApproval = {
  name: GasSponsoring;
  approval: SponsoredApproval;
  /** The extension's `info` for the facilitator: its known members, as sent. */
  info: Readonly<Record<string, unknown>>;
};

type Extended = { extensions?: Readonly<Record<string, unknown>> | null };

/**
 * Reads the approval that came with a payment in one of these extensions. If there are several, only the first counts. Undefined
 * if no approval came. Throws `payment.malformed` if the approval cannot be read, or if it is not for Permit2, by this payer and in
 * this token.
 */
export function readApproval(
  { extensions }: Extended,
  names: readonly GasSponsoring[],
  { payer, asset }: { payer: string; asset: string },
): SentApproval | undefined {
  const name = names.find((each) => isSigned(each, infoIn(extensions?.[each])));
  if (name === undefined) return undefined;
  const { info: schema, kind } = EXTENSIONS[name];
  const sent = infoIn(extensions?.[name]);
  const read = schema.safeParse(sent, { error: messageForJson });
  if (!read.success) throw malformed(name, firstProblem(read.error, "info"));
  const { from, asset: approved } = read.data;
  if (from.toLowerCase() !== payer.toLowerCase()) throw malformed(name, "from: must be the payer");
  if (approved.toLowerCase() !== asset.toLowerCase())
    throw malformed(name, "asset: must be that of the offer");
  const info = Object.fromEntries(Object.keys(read.data).map((member) => [member, sent[member]]));
  return { name, approval: { kind, ...read.data } as SponsoredApproval, info };
}

function isSigned(name: GasSponsoring, info: object): boolean {
  return Object.hasOwn(info, EXTENSIONS[name].signed);
}

function infoIn(extension: unknown): Readonly<Record<string, unknown>> {
  const { info } = (extension ?? {}) as { info?: unknown };
  return typeof info === "object" && info !== null ? (info as Record<string, unknown>) : {};
}

function malformed(name: GasSponsoring, detail: string): AppError {
  return AppError.public("payment.malformed", `extensions.${name}.info: ${detail}`);
}

/** Returns the request with this approval in place of any other. With undefined, the request has no approval. */
export function withApproval(
  request: FacilitatorRequest,
  approval: SentApproval | undefined,
): FacilitatorRequest {
  const { extensions: sent, ...payment } = request.paymentPayload as Extended;
  const others = Object.entries(sent ?? {}).filter(([name]) => !Object.hasOwn(EXTENSIONS, name));
  const own = approval ? [[approval.name, { info: approval.info }]] : [];
  const extensions = Object.fromEntries([...others, ...own]);
  const paymentPayload = { ...payment, ...(Object.keys(extensions).length > 0 && { extensions }) };
  return { ...request, paymentPayload };
}

/** Reads the approval from a request that `withApproval` made. */
export function approvalIn(
  { paymentPayload }: FacilitatorRequest,
  paid: { payer: string; asset: string },
): SentApproval | undefined {
  return readApproval(paymentPayload as Extended, Object.keys(EXTENSIONS) as GasSponsoring[], paid);
}
