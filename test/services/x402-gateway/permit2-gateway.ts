import type { PaymentRequirements } from "@x402/core/types";
import type { TomlTable } from "smol-toml";
import type { Devnet } from "../../../shared/dev/devnet.ts";
import type { TestX402, X402Fixture } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { type Permit2PaymentChoice, signPermit2Payment } from "../../support/permit2.ts";
import type { Payer } from "../../support/sign-payment.ts";

export type Permit2Symbol = "usdt" | "dai";

/** Settings of USDC by Permit2, with its own permits of EIP-2612. They replace the settings of USDC by EIP-3009. */
export const PERMIT2_USDC: TomlTable = {
  ...({ eip3009_name: undefined, eip3009_version: undefined } as unknown as TomlTable),
  transfer_method: "permit2",
  eip2612_domain: { name: "USDC", version: "2" },
};

/** Settings of a devnet token without EIP-3009. They replace those of the token with EIP-3009. */
export function permit2Token({ permit2Tokens }: Devnet, symbol: Permit2Symbol): TomlTable {
  const domain = { eip3009_name: undefined, eip3009_version: undefined } as unknown as TomlTable;
  return {
    ...domain,
    asset: permit2Tokens[symbol],
    symbol: symbol.toUpperCase(),
    decimals: symbol === "usdt" ? 6 : 18,
    transfer_method: "permit2",
  };
}

/** A payer who has the tokens and has approved Permit2. */
export async function approvedPayer<Kind extends Payer>(
  { devnet }: X402Fixture,
  symbol: Permit2Symbol,
  made?: Kind,
): Promise<Kind | Payer> {
  const payer = made ?? (await newPayer(devnet, 0n));
  const token = devnet.permit2Tokens[symbol];
  await devnet.chain.mint(payer.address, 1000n * 10n ** 18n, token);
  await devnet.chain.permit2.approve(payer, token);
  return payer;
}

/** Returns the header of a payment of the first offer, and the signed values. */
export async function permit2Payment(x402: TestX402, choice: Permit2PaymentChoice) {
  const [offer] = (await x402.ask()).v2.accepts;
  const deadline = BigInt(Math.floor(Date.now() / 1000) + 120);
  const made = await signPermit2Payment(offer as PaymentRequirements, { deadline, ...choice });
  return { headers: { "PAYMENT-SIGNATURE": made.header }, ...made };
}
