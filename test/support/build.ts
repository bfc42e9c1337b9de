import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findAnvil } from "../../services/devnet/anvil.ts";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { installMissing } from "./needs.ts";

/**
 * Runs once before all tests: builds the program that they start, and installs what they need while no test runs. Ends the run
 * with what to install if there is no Redis or no anvil, because most tests need them.
 * Type errors do not stop a run: `npm run check:types` reports them.
 */
export function setup(): void {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  execFileSync(process.execPath, ["services/dev/bundle.mjs"], { cwd: root });
  const incremental = ["--incremental", "--tsBuildInfoFile", "dist/.tsbuildinfo"];
  const tsc = ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", ...incremental];
  const { error, stdout, status } = spawnSync(process.execPath, tsc, { cwd: root, encoding: "utf8" });
  if (error) throw error;
  if (status !== 0) console.warn(stdout);
  const page = ["--logLevel", "warn", "--config", "services/operator-page/vite.config.mjs"];
  execFileSync(process.execPath, ["node_modules/vite/bin/vite.js", "build", ...page], { cwd: root });
  findRedisServer(process.env);
  findAnvil(process.env);
  installMissing(process.env);
}
