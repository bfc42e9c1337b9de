import type { Address } from "../../../shared/chain/address.ts";
import { checksummed } from "../../../shared/chain/checksum.ts";
import { addressWord, chainIdOf, selectorOf, uintWord } from "../../../shared/chain/encoding.ts";
import type { RefundExportView } from "../../../shared/console/refunds.ts";
import { inTokens } from "../text.ts";

/* Formats of an export for two apps of the Safe wallet. The same export always gives the same bytes. */

/**
 * Formats an export for the app CSV Airdrop, with amounts in whole tokens. The last column is empty, because it is only
 * for collectibles.
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

/** Formats an export for the app Transaction Builder, as a batch of calls of `transfer`. */
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
