import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import { loaderPlugin } from "../../services/dev/loader.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Returns the path of a compiled script. By default it is a script of this clone. With `clone`, it is the same script of
 * another clone, whose build the bench compares with this one.
 */
export function compiled(script: string, clone = root): string {
  const place = script.startsWith("bench/") ? "dist/.bench" : "dist";
  return join(clone, place, script.replace(/\.ts$/, ".js"));
}

/**
 * Bundles the scripts that the bench runs as separate processes, each with the code that it imports. Node then starts them as
 * plain JavaScript, as it starts Postern's own processes.
 */
export async function buildProcesses(): Promise<void> {
  const scripts = ["bench/baselines", "bench/processes"].flatMap((folder) =>
    readdirSync(join(root, folder)).map((file) => `${folder}/${file}`),
  );
  await build({
    cwd: root,
    input: Object.fromEntries(scripts.map((script) => [script.replace(/\.ts$/, ""), `./${script}`])),
    platform: "node",
    external: /^[^./]/, // packages
    plugins: [loaderPlugin],
    logLevel: "warn",
    output: { dir: "dist/.bench", cleanDir: true, entryFileNames: "[name].js" },
  });
}

/**
 * Runs `measure` with the folder of the build that the bench compares this one with. `named` is the argument of `--against`:
 * such a folder, or a commit. A commit is cloned to a temporary folder, where its packages are installed and it is built.
 */
export async function withOtherBuild<Result>(
  named: string | undefined,
  measure: (clone: string | undefined) => Promise<Result>,
): Promise<Result> {
  if (named === undefined) return measure(undefined);
  if (statSync(named, { throwIfNoEntry: false })?.isDirectory()) return measure(resolve(named));
  const commit = run([
    "git",
    "rev-parse",
    "--verify",
    "--quiet",
    "--end-of-options",
    `${named}^{commit}`,
  ]).trim();
  const clone = mkdtempSync(join(tmpdir(), "postern-bench-against-"));
  try {
    run(["git", "clone", "--quiet", "--no-checkout", root, clone]);
    run(["git", "-C", clone, "checkout", "--quiet", "--detach", commit]);
    // The clone's `prepare` script builds it.
    run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], clone);
    return await measure(clone);
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
}

function run([command = "", ...args]: readonly string[], cwd = root): string {
  const { status, error, stdout } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${[command, ...args].join(" ")} failed in ${cwd} (exit code ${status})`);
  return stdout;
}
