import type { ConfigTables } from "../config/config-tables.ts";
import { DEV_JOBS, newSecret } from "./dev-config.ts";
import type { Devnet } from "./start-devnet.ts";

/** In wei. At the rate below from three to eight cents: less than what official clients pay without being told to. */
const PRICES: Readonly<Record<number, string>> = {
  [DEV_JOBS.echo]: "10000000000000",
  [DEV_JOBS.keccak256]: "20000000000000",
  [DEV_JOBS.slow]: "25000000000000",
};

type Options = {
  devnet: Devnet;
  /** `host:port` of the x402 gateway. */
  address: string;
  /** Whose jobs the reference runner's are. */
  serviceId: string;
};

/** What an x402 gateway needs to sell the reference runner's jobs for the devnet's tokens. */
export function createDevPayments({ devnet, address, serviceId }: Options) {
  return {
    x402: {
      bind_address: address,
      public_url: `http://${address}`,
      facilitator_url: devnet.facilitatorUrl,
      quote_secret: newSecret(),
      accepted_tokens: [{ ...devToken(devnet), confirmations: 1 }],
    },
    job_pricing: { [serviceId]: { ...PRICES } },
  } satisfies ConfigTables;
}

/** The devnet's token as an x402.toml has it, at 3200 for 10^18 wei. */
export function devToken({
  network,
  token,
  seller,
  rpcUrl,
}: Pick<Devnet, "network" | "token" | "seller" | "rpcUrl">) {
  return {
    network,
    asset: token,
    symbol: "USDC",
    decimals: 6,
    pay_to: seller,
    rate_per_native_unit: "3200",
    eip3009_name: "USDC",
    eip3009_version: "2",
    rpc_url: rpcUrl,
  };
}
