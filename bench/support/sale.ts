import type { Table } from "../../shared/config/config-tables.ts";

/** One job, sold for one token. The recipient does not matter, because no payment is really settled. */
export const JOB_PATH = "/x402/jobs/1/7";
export const NETWORK = "eip155:84532";
export const PAY_TO = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
/** Price at both servers that are compared: 10^15 wei are 3.20 USDC at 3200 USDC per native unit. */
export const PRICING = { "1": { "7": "1000000000000000" } };
export const PRICE = "$3.20";
/** Validity of a payment: the longest that may be configured, because payments are signed before the rounds. */
export const MAX_TIMEOUT_SECS = 3600;

/**
 * Builds the configuration of Postern's payment gateway. As in production, the gateway proves each payment on a chain. The
 * hand-written server that the bench compares it with has no chain, and trusts the facilitator's answer.
 */
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
