import { loadConfig } from "../../shared/config/config-dir.ts";
import { readX402 } from "../../shared/pricing/read-x402.ts";
import { runPricing } from "./main.ts";

/*
 * Runs the pricing engine as a separate process that also tells clients how to pay its quotes by x402 (`settlement`). No
 * configuration file can enable this, only code. `postern dev` and the demo run this file. Its arguments are the configuration
 * directory and the address of its probes.
 */
const { argv, env } = process;
const [configDir = "config", opsAddress = "127.0.0.1:0"] = argv.slice(2);
const { x402: settlement } = loadConfig(readX402, { dir: configDir, env, reader: "pricing" });
process.exit(await runPricing({ configDir, env, pretty: false, opsAddress, settlement }));
