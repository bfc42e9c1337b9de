import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildIfChanged } from "../../services/dev/build.mjs";
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
  buildIfChanged(root, ([script = "", ...args]) => {
    const stdio = ["ignore", 2, 2] as const;
    const { error, status } = spawnSync(process.execPath, [script, ...args], {
      cwd: root,
      stdio: [...stdio],
    });
    if (error) throw error;
    if (status !== 0 && !script.endsWith("/tsc")) throw new Error(`${script} failed`);
  });
  findRedisServer(process.env);
  findAnvil(process.env);
  installMissing(process.env);
}
