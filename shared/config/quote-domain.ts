import { z } from "zod";
import { positive } from "./fields.ts";
import { evmAddress } from "./x402-tokens.ts";

const domainText = z.string().min(1, "is empty").max(256);

/** The EIP-712 domain that a pricing engine signs its quotes for, and the chain's side checks them by. */
export const quoteDomain = z.strictObject({
  name: domainText.default("TangleQuote"),
  version: domainText.default("1"),
  chain_id: positive.max(Number.MAX_SAFE_INTEGER),
  verifying_contract: evmAddress,
});
