import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { createRates } from "../../shared/pricing/rates/rates.ts";
import { type HostParts, runPricing } from "./main.ts";
import type { ComposedService } from "./pricing.ts";

/*
 * A process of its own: the pricing engine with its x402 settlement extension, which only code can turn on. `postern dev`
 * and the demo run it. Its arguments are the configuration directory and the address of its probes.
 */
const { argv, env } = process;
const [configDir = "config", opsAddress = "127.0.0.1:0"] = argv.slice(2);
const { x402 } = loadX402Config({ dir: configDir, env, reader: "pricing" });

function withSettlement(
  service: ComposedService,
  { partition, clock, log, shutdown }: HostParts,
): ComposedService {
  if (x402 === undefined) return service;
  const { public_url: endpoint, accepted_tokens: acceptedTokens } = x402;
  const rates = createRates({ tokens: acceptedTokens, partition, clock, log });
  void rates.start();
  shutdown.defer("rates", rates.close);
  return service.withX402Settlement({ endpoint, acceptedTokens, rateOf: rates.of });
}

const exitCode = await runPricing({
  configDir,
  env,
  pretty: false,
  bindAddress: undefined,
  opsAddress,
  extend: withSettlement,
});
process.exit(exitCode);
