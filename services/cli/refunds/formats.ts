import type { Address } from "../../../shared/chain/address.ts";
import { checksummed } from "../../../shared/chain/checksum.ts";
import { addressWord, chainIdOf, selectorOf, uintWord } from "../../../shared/chain/encoding.ts";
import type { RefundExportView } from "../../../shared/console/refunds.ts";
import { inTokens } from "../text.ts";

/*
 * Formats of an export of refunds, for two apps of the Safe wallet. The same export always gives the same bytes, so
 * that two printed copies can be compared.
 */

/**
 * Formats an export for the app CSV Airdrop. Amounts are in whole tokens, such as 3.2. The last column is empty,
 * because only collectibles (NFTs) use it.
 */
export function toCsv({ rows }: RefundExportView): string {
  const lines = rows.map(({ asset, payer, amount, decimals }) =>
    [
      "erc20",
      checksummed(asset as Address),
      checksummed(payer as Address),
      inTokens(BigInt(amount), decimals),
      "",
    ].join(","),
  );
  return ["token_type,token_address,receiver,amount,id", ...lines].map((line) => `${line}\n`).join("");
}

/**
 * Formats an export for the app Transaction Builder, as JSON with one call of the token contract's `transfer` for each
 * refund.
 */
export function toBatch({ id, at, network, rows }: RefundExportView): string {
  const count = `${rows.length} ${rows.length === 1 ? "refund" : "refunds"}`;
  const batch = {
    version: "1.0",
    chainId: String(chainIdOf(network)),
    createdAt: Date.parse(at),
    meta: { name: `Postern ${id}`, description: `${count} of paid calls that failed` },
    transactions: rows.map((row) => ({
      to: checksummed(row.asset as Address),
      value: "0",
      data: transferData(row),
    })),
  };
  return `${JSON.stringify(batch, null, 2)}\n`;
}

const TRANSFER = selectorOf("transfer(address,uint256)");

function transferData({ payer, amount }: RefundExportView["rows"][number]): string {
  return `${TRANSFER}${addressWord(payer)}${uintWord(BigInt(amount))}`;
}
