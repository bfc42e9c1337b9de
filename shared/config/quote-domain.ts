import { z } from "zod";
import type { Eip712Domain } from "../ethereum/typed-data.ts";
import { domainText, positive } from "./fields.ts";
import { evmAddress } from "./x402-tokens.ts";

/** The EIP-712 domain that a pricing engine signs its quotes for, and the chain's side checks them by. */
export const quoteDomain = z
  .strictObject({
    name: domainText.default("TangleQuote"),
    version: domainText.default("1"),
    chain_id: positive.max(Number.MAX_SAFE_INTEGER),
    verifying_contract: evmAddress,
  })
  .transform(({ chain_id: chainId, verifying_contract: verifyingContract, ...named }): Eip712Domain => {
    return { ...named, chainId, verifyingContract };
  });
