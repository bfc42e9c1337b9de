// Builds the program if the built files are older than the sources. It is plain JavaScript because it runs before
// anything is built.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

/** Input of the build. package.json names what is built, and the lockfile names the versions of packages. */
const SOURCES = [
  ...["services", "shared", "package.json", "package-lock.json"],
  ...["tsconfig.json", "tsconfig.build.json"],
];

/** Steps of the script `build` in package.json, each run with node: the bundler, and the compiler for the types. */
const STEPS = [["services/dev/bundle.mjs"], ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"]];

/** Programs that package.json does not name. The Docker image, a script of the clone or another program starts them. */
const OTHER_PROGRAMS = [
  "services/dev/demo/main.ts",
  "services/health/main.ts",
  "services/pricing/main-with-x402.ts",
];

/** Returns the sources of all programs and of the package's exports. */
export function entrySources(root) {
  const { bin, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const built = [bin.postern, ...Object.values(exports).flatMap(({ default: file }) => file ?? [])];
  const named = built.map((file) => file.replace(/^(\.\/)?dist\//, "").replace(/\.js$/, ".ts"));
  return [...named, ...OTHER_PROGRAMS];
}

/** Patterns of the source files and the built files that `buildIfChanged` compares. */
const READ = /\.(ts|tsx|mjs|json|lua|proto|css|html|svg)$/;
const BUILT = /\.(js|ts|css|html|svg|json|txt)$/;

/**
 * Builds unless `dist` was built from exactly these sources. Calls `run` for each step, with the arguments for `node`.
 * Compares the contents of files and not their times, because a checkout or a restored backup can set any time. Also
 * compares the built files, because another program may have written into `dist` since.
 */
export function buildIfChanged(root, run) {
  const stamp = join(root, "dist/.built");
  const sources = digest(root, SOURCES, READ);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === stampOf(root, sources)) return;
  console.error("Building ...");
  for (const step of STEPS) run(step);
  // Without this check, sources that were edited during the build could count as built.
  if (digest(root, SOURCES, READ) === sources) writeFileSync(stamp, stampOf(root, sources));
}

function stampOf(root, sources) {
  return `${sources} ${digest(root, ["dist"], BUILT)}\n`;
}

/** Returns one digest of the names and contents of these files, and of matching files in these folders. */
function digest(root, places, pattern) {
  const hash = createHash("sha256");
  for (const file of places.flatMap((place) => filesOf(root, place, pattern))) {
    const content = readFileSync(join(root, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

/** Lists files, without hidden files and folders: the bench builds into a hidden folder of dist. */
function filesOf(root, place, pattern) {
  if (/\.json$/.test(place)) return [place];
  const entries = readdirSync(join(root, place), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.split(sep).some((part) => part.startsWith(".")))
    .sort();
}
