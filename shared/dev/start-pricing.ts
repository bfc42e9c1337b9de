import { type Part, startPart } from "./start-part.ts";
import { builtEntry, type ProcessOptions } from "./start-process.ts";

type Options = Pick<ProcessOptions, "env" | "onLine"> & { configDir: string };

/** Runs the pricing engine with its x402 settlement extension, out of reach of the terminal's Ctrl-C. */
export function startPricing({ configDir, ...options }: Options): Promise<Part> {
  const entry = builtEntry("services/pricing/main-with-x402.js");
  return startPart({ name: "pricing", entry, args: [configDir], detached: true, ...options });
}
