import type { Table } from "../../shared/config/config-tables.ts";

/**
 * The sale that the bench measures: one job, and one token to pay for it. The recipient can be any address, because the
 * simulated facilitator settles no payment on a real chain.
 */
export const JOB_PATH = "/x402/jobs/1/7";
export const NETWORK = "eip155:84532";
export const PAY_TO = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
/**
 * Prices of the job at the gateway (`PRICING`, in wei) and at its baseline (`PRICE`). They are equal: 10^15 wei are 3.20 USDC
 * at 3200 USDC per native unit.
 */
export const PRICING = { "1": { "7": "1000000000000000" } };
export const PRICE = "$3.20";
/**
 * Time for which a payment is valid. It is the maximum that Postern's configuration permits, because the bench signs all
 * payments before the first round.
 */
export const MAX_TIMEOUT_SECS = 3600;

/**
 * Builds the configuration of Postern's payment gateway. As in production, the gateway verifies on the chain that each
 * payment was made. The hand-written server that the bench compares it with only trusts the facilitator's answer.
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
