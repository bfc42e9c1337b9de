import type { Table } from "../../shared/config/config-tables.ts";

/** One job, sold for one token; whom it pays does not matter, since nothing settles. */
export const JOB_PATH = "/x402/jobs/1/7";
export const NETWORK = "eip155:84532";
export const PAY_TO = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
/** The same price on both sides: 10^15 wei at 3200 are 3.20 USDC. */
export const PRICING = { "1": { "7": "1000000000000000" } };
export const PRICE = "$3.20";
/** Payments are signed before the rounds, so they are valid for as long as may be configured. */
export const MAX_TIMEOUT_SECS = 3600;

/** As an operator has it, with a chain that proves each payment; the baseline takes the facilitator's word. */
export function x402Table(facilitatorUrl: string): Table {
  return {
    public_url: "http://pay.bench",
    facilitator_url: facilitatorUrl,
    quote_secret: "the-secret-that-a-bench-quotes-with",
    quote_ttl_secs: 86_400,
    max_timeout_secs: MAX_TIMEOUT_SECS,
    open_payments_per_payer: 64,
    accepted_tokens: [
      {
        network: NETWORK,
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        symbol: "USDC",
        decimals: 6,
        pay_to: PAY_TO,
        rpc_url: `${facilitatorUrl}/rpc`,
        rate_per_native_unit: "3200",
        eip3009_name: "USDC",
        eip3009_version: "2",
      },
    ],
  };
}
