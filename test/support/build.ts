import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { findProgram, installPackage } from "../../shared/dev/find-program.ts";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { installNginx } from "./nginx.ts";

/**
 * Once before all tests: builds the program they start, and installs what they need while nobody else does.
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
  installNginx();
  for (const used of ["curl", "openssl"]) // by the documents' commands
    if (findProgram([used], process.env) === undefined) installPackage(used, process.env);
}
