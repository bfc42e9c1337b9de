import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findAnvil } from "../../services/devnet/anvil.ts";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { installMissing } from "./needs.ts";

type Run = (step: readonly string[]) => void;

/**
 * Runs once before all tests: builds the program that they start, and installs what they need while no test runs. Ends the run
 * with what to install if there is no Redis or no anvil, because most tests need them.
 * Type errors do not stop a run: `npm run check:types` reports them.
 */
export async function setup(): Promise<void> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  // build.mjs has no types, so the compiler may not follow the import.
  const module = new URL("../../services/dev/build.mjs", import.meta.url).href;
  const { buildIfChanged } = (await import(module)) as { buildIfChanged(root: string, run: Run): void };
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
