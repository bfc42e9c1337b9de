import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import type { TestProject } from "vitest/node";
import { buildIfChanged } from "../../services/dev/build.mjs";
import { findAnvil } from "../../services/dev/chain/anvil.ts";
import { loaderPlugin } from "../../services/dev/loader.mjs";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { installMissing } from "./needs.ts";
import { PROGRAMS } from "./programs.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Runs once before all tests. It builds the programs that tests start, and installs what they need while no test
 * runs. If Redis or anvil is missing, it ends the run with instructions, because most tests need them. Type errors do
 * not stop a run: `npm run check:types` reports them.
 */
export async function setup({ provide }: TestProject): Promise<() => void> {
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
  const programs = await bundlePrograms();
  provide("programs", programs);
  return () => rmSync(programs, { recursive: true });
}

/** Bundles the tests' own programs into a folder of this run, because another run may start them at the same time. */
async function bundlePrograms(): Promise<string> {
  const dir = mkdtempSync(join(root, "dist/.tests-"));
  await build({
    cwd: root,
    input: PROGRAMS,
    platform: "node",
    external: /^[^./]/, // npm packages stay external
    plugins: [loaderPlugin],
    logLevel: "warn",
    output: { dir, entryFileNames: "[name].js", sourcemap: true },
  });
  return dir;
}
