import { ExactEvmScheme } from "@x402/evm/exact/client";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { type PaymentRequired, type PaymentRequirements, x402Client, x402HTTPClient } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { hexPrivateKey } from "../../../shared/chain/signatures.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { inTokens, plain, toUnits } from "../text.ts";
import { PayFailure } from "./purchase.ts";

type SignedPayment = {
  /**
   * Headers with the signed payment. Every attempt sends exactly these headers, so that the gateway charges for one
   * payment only.
   */
  headers: Record<string, string>;
  nonce: string;
  /** Unix seconds. */
  validBefore: number;
};

export type Payer = ReturnType<typeof createPayer>;

/**
 * Creates a payer, which chooses one of the gateway's offers and signs a payment for it. It uses the official client of
 * x402 version 2. The payment is an EIP-3009 or a Permit2 authorization.
 */
export function createPayer(key: Secret) {
  const account = privateKeyToAccount(hexPrivateKey(key.reveal()));
  const scheme = new ExactEvmScheme(account);
  const client = new x402Client().register("eip155:*", scheme);
  const http = new x402HTTPClient(client);

  return {
    address: account.address,

    /** Reads the offers in a 402 answer. */
    readRequired(headers: Headers): PaymentRequired {
      try {
        return http.getPaymentRequiredResponse((name) => headers.get(name));
      } catch (cause) {
        const reason = "the 402 answer has no PAYMENT-REQUIRED header of x402 version 2";
        throw new PayFailure("failed", { reason, cause });
      }
    },

    /**
     * Reads the payment response header of an answer, which describes the settled payment. Undefined if the header is
     * missing.
     */
    readResponse(headers: Headers): object | undefined {
      try {
        return http.getPaymentSettleResponse((name) => headers.get(name));
      } catch {
        return undefined;
      }
    },

    choose: (required: PaymentRequired, limits: Limits): Price =>
      chooseOffer(required, limits, {
        scheme: scheme.scheme,
        tokenOf: ({ asset, network }) => scheme.findDefaultAsset?.(asset, network),
      }),

    /** Signs a payment for this offer only. */
    async sign(required: PaymentRequired, { offer, method, cap }: Price): Promise<SignedPayment> {
      const { asset, network } = offer;
      // With these settings, the x402 client itself refuses to sign for another token or a higher amount.
      const allowedAssets = [{ asset, network, maxAmountPerPayment: String(cap) }];
      client.setSpendControls({ maxAmountPerPayment: false, allowedAssets });
      const extensions = appendPaymentIdentifierToExtensions(structuredClone(required.extensions ?? {}));
      const payload = await client.createPaymentPayload({ ...required, accepts: [offer], extensions });
      return { headers: http.encodePaymentSignatureHeader(payload), ...signedIn(payload.payload, method) };
    },
  };
}

/**
 * Transfer methods that the client can sign. `member` is the name of the signed object in the payload. `end` is the
 * name of the field in it that has the expiry.
 */
const METHODS: ReadonlyMap<unknown, Method> = new Map([
  ["eip3009", { member: "authorization", end: "validBefore" }],
  ["permit2", { member: "permit2Authorization", end: "deadline" }],
]);

type Method = { member: string; end: string };

function signedIn(payload: object, { member, end }: Method): Pick<SignedPayment, "nonce" | "validBefore"> {
  const signed = (payload as Record<string, Record<string, string>>)[member];
  return { nonce: signed?.["nonce"] ?? "", validBefore: Number(signed?.[end]) };
}

type Limits = {
  /** Highest price in tokens, as a decimal number. */
  max: string;
  /** Number of decimals of tokens that the x402 client does not know, by the token's address in lower case. */
  tokens: Readonly<Record<string, number>>;
};

/** An offer that the client can pay. */
type Price = {
  offer: PaymentRequirements;
  method: Method;
  /** The price for people, such as "3.2 USDC". */
  text: string;
  /** The highest amount to pay, in the token's smallest unit. */
  cap: bigint;
};

/** Payment scheme that the x402 client supports, and a lookup of the tokens that it knows. */
type ClientSupport = {
  scheme: string;
  tokenOf(offer: PaymentRequirements): { symbol: string; decimals: number } | undefined;
};

/** Returns the first payable offer that costs at most `limits.max`. Throws PayFailure without such an offer. */
function chooseOffer({ accepts }: PaymentRequired, limits: Limits, known: ClientSupport): Price {
  const prices = accepts.flatMap((offer) => toPrice(offer, limits, known) ?? []);
  const affordable = prices.find(({ offer, cap }) => BigInt(offer.amount) <= cap);
  if (affordable !== undefined) return affordable;
  const reason = prices.length === 0 ? noPayableOfferReason(accepts) : overCapReason(prices, limits);
  throw new PayFailure("refused", { reason });
}

/**
 * Longest validity of a payment that this command signs. A longer one would only give a dishonest seller more time: no
 * settlement takes an hour.
 */
const TIMEOUT_SECONDS_MAX = 3600;

function toPrice(
  offer: PaymentRequirements,
  { max, tokens }: Limits,
  known: ClientSupport,
): Price | undefined {
  const token = known.tokenOf(offer);
  const decimals = tokens[offer.asset.toLowerCase()] ?? token?.decimals;
  const method = METHODS.get(offer.extra?.["assetTransferMethod"] ?? "eip3009");
  if (decimals === undefined || method === undefined || !isPayable(offer, known.scheme)) return undefined;
  const text = `${inTokens(BigInt(offer.amount), decimals)} ${token?.symbol ?? `of ${offer.asset}`}`;
  return { offer, method, text, cap: toUnits(max, decimals) };
}

function isPayable(offer: PaymentRequirements, scheme: string): boolean {
  const { network, amount, maxTimeoutSeconds } = offer;
  const isOfScheme = offer.scheme === scheme && /^\d{1,78}$/.test(amount);
  return isOfScheme && network.startsWith("eip155:") && maxTimeoutSeconds <= TIMEOUT_SECONDS_MAX;
}

function overCapReason(prices: readonly Price[], { max }: Limits): string {
  return `the price is ${prices.map(({ text }) => text).join(" or ")}, over --max ${max}; nothing was signed`;
}

function noPayableOfferReason(accepts: readonly PaymentRequirements[]): string {
  const offers = accepts.map(({ scheme, network, asset }) => plain(`${scheme} on ${network} in ${asset}`));
  const offered = offers.join("; ") || "none";
  return `none of the offers can be paid (offers: ${offered}); use --token to add a token; nothing was signed`;
}
