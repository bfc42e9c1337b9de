import type { TomlTable } from "smol-toml";
import { devToken } from "../../shared/dev/config.ts";
import type { UsedDevnet } from "../fixtures/devnet.ts";
import { x402Table } from "../fixtures/x402.ts";
import { permit2Token } from "../services/x402-gateway/permit2-gateway.ts";
import { newPayer, type TokenTransfer } from "../support/devnet.ts";
import type { Payer } from "../support/sign-payment.ts";
import { newWallet, type WalletPayer } from "../support/wallets.ts";

/**
 * Kinds of payers: a key that pays by EIP-3009, a smart wallet that pays by EIP-3009, and a key that pays by Permit2.
 */
export const PAYER_KINDS = ["key", "wallet", "permit2"] as const;
export type PayerKind = (typeof PAYER_KINDS)[number];

/** A payer and its token; `asset` is in lower case. */
export type Customer =
  | { kind: "key" | "permit2"; payer: Payer; asset: string }
  | { kind: "wallet"; payer: WalletPayer; asset: string };

type CustomerChoice = {
  /** Initial balance, in units. */
  tokens?: bigint;
  /** Whether the payer's wallet, if any, is deployed before its first payment. */
  deployed?: boolean;
};

const PLENTY = 1_000_000_000n;

export async function newCustomer(
  devnet: UsedDevnet,
  kind: PayerKind,
  { tokens = PLENTY, deployed = true }: CustomerChoice = {},
): Promise<Customer> {
  const { chain, token, permit2Tokens } = devnet;
  if (kind === "wallet") {
    const payer = await newWallet(devnet, { tokens, deployed });
    return { kind, payer, asset: token.toLowerCase() };
  }
  if (kind === "key") return { kind, payer: await newPayer(devnet, tokens), asset: token.toLowerCase() };
  const payer = await newPayer(devnet, 0n);
  if (tokens > 0n) await chain.mint(payer.address, tokens, permit2Tokens.usdt);
  await chain.permit2.approve(payer, permit2Tokens.usdt);
  return { kind, payer, asset: permit2Tokens.usdt.toLowerCase() };
}

/** Configures two gateways that sell job 1 of service 1 to all kinds of payers. `settings` are keys of x402.toml. */
export function sellingToAllKinds(devnet: UsedDevnet, settings: TomlTable = {}) {
  const x402 = { settle_timeout_secs: 2, accepted_tokens: tokensOfAllKinds(devnet), ...settings };
  return {
    toml: x402Table({ devnet, x402 }),
    prices: { "1": { "1": "1000000000000000" } },
    gateways: 2,
  };
}

/** Returns `accepted_tokens` for all kinds of payers: the first by EIP-3009, the second by Permit2. */
function tokensOfAllKinds(devnet: UsedDevnet): TomlTable[] {
  const token = { ...devToken(devnet), confirmations: 0 };
  return [token, { ...token, ...permit2Token(devnet, "usdt") }];
}

/** Returns the transfers of all payers to the seller. */
export async function transfersOfAllKinds({
  chain,
  seller,
  token,
  permit2Tokens,
}: UsedDevnet): Promise<TokenTransfer[]> {
  const assets = [token, permit2Tokens.usdt];
  return (await Promise.all(assets.map((asset) => chain.transfers(seller, asset)))).flat();
}
