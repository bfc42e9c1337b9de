import { openConfigDir } from "../config/config-dir.ts";
import type { LoadOptions } from "../config/load-config.ts";
import { readX402Config, type X402Config } from "./x402-checks.ts";

/** Like `loadConfig`, with the files of the x402 gateway: one error lists the problems of all files. */
export function loadX402Config({ dir, env, reader }: LoadOptions): X402Config {
  return readX402Config(openConfigDir(dir), env, reader);
}
