import { z } from "zod";
import { domainText, headerText } from "./fields.ts";
import { rateBounds, ratePerNativeUnit } from "./rate-source.ts";
import type { Env } from "./secret-value.ts";
import { decimals, evmAddress, markupBps, network, rpcUrl } from "./x402-tokens.ts";

const transferMethod = z.literal("eip3009", {
  error: ({ input }) => (input === "permit2" ? "permit2 is not supported yet" : 'must be "eip3009"'),
});

/** One of `[[accepted_tokens]]`. What stands between its keys is `x402Problems`' to say. */
export function acceptedToken(env: Env) {
  return z.strictObject({
    network,
    asset: evmAddress,
    symbol: headerText.max(32),
    decimals,
    pay_to: evmAddress,
    rate_per_native_unit: ratePerNativeUnit(env),
    ...rateBounds,
    markup_bps: markupBps.default(0),
    transfer_method: transferMethod.default("eip3009"),
    eip3009_name: domainText,
    eip3009_version: domainText,
    rpc_url: rpcUrl(env).optional(),
    confirmations: z.int().min(0).max(1000).default(2),
  });
}
