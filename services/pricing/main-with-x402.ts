import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { runPricing } from "./main.ts";

/*
 * A process of its own: the pricing engine with its x402 settlement extension, which only code can turn on. `postern dev`
 * and the demo run it. Its arguments are the configuration directory and the address of its probes.
 */
const { argv, env } = process;
const [configDir = "config", opsAddress = "127.0.0.1:0"] = argv.slice(2);
const { x402: settlement } = loadX402Config({ dir: configDir, env, reader: "pricing" });
process.exit(await runPricing({ configDir, env, pretty: false, opsAddress, settlement }));
