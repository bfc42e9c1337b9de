// Builds the program if the sources or the built files have changed since the last build. It is plain JavaScript
// because it runs before anything is built.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

/**
 * Files and folders on which the build depends. package.json names the programs to build, and the lockfile names the
 * versions of the packages that are bundled.
 */
const SOURCES = [
  ...["services", "shared", "package.json", "package-lock.json"],
  ...["tsconfig.json", "tsconfig.build.json"],
];

/** Steps of the script `build` in package.json, each run with node: the bundler, and the compiler for the types. */
const STEPS = [["services/dev/bundle.mjs"], ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"]];

/**
 * Programs that package.json does not name as a command or an export. The Docker image, an npm script or another
 * program starts them.
 */
const OTHER_PROGRAMS = [
  "services/dev/demo/main.ts",
  "services/health/main.ts",
  "services/pricing/main-with-x402.ts",
];

/** Returns the source files from which the bundler starts: those of all programs and of the package's exports. */
export function entrySources(root) {
  const { bin, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const built = [bin.postern, ...Object.values(exports).flatMap(({ default: file }) => file ?? [])];
  const named = built.map((file) => file.replace(/^(\.\/)?dist\//, "").replace(/\.js$/, ".ts"));
  return [...named, ...OTHER_PROGRAMS];
}

/** Names of the source files (`READ`) and of the built files (`BUILT`) that `buildIfChanged` compares. */
const READ = /\.(ts|tsx|mjs|json|lua|proto|css|html|svg)$/;
const BUILT = /\.(js|ts|css|html|svg|json|txt)$/;

/**
 * Builds unless `dist` was built from exactly these sources. Calls `run` for each step, with the arguments for `node`.
 * It compares the contents of files and not their times, because a checkout or a restored backup can set any time. It
 * compares the built files as well as the sources, because another program may have changed `dist` after the build.
 */
export function buildIfChanged(root, run) {
  const stamp = join(root, "dist/.built");
  const sources = digest(root, SOURCES, READ);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === stampOf(root, sources)) return;
  console.error("Building ...");
  for (const step of STEPS) run(step);
  // If the sources were edited during the build, no stamp is written, and the next call builds again.
  if (digest(root, SOURCES, READ) === sources) writeFileSync(stamp, stampOf(root, sources));
}

function stampOf(root, sources) {
  return `${sources} ${digest(root, ["dist"], BUILT)}\n`;
}

/** Returns one digest of the names and contents of all files in `places`. In a folder, only files that match count. */
function digest(root, places, pattern) {
  const hash = createHash("sha256");
  for (const file of places.flatMap((place) => filesOf(root, place, pattern))) {
    const content = readFileSync(join(root, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

/** Lists files. Skips hidden files and folders, because the bench builds its own scripts into dist/.bench. */
function filesOf(root, place, pattern) {
  if (/\.json$/.test(place)) return [place];
  const entries = readdirSync(join(root, place), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.split(sep).some((part) => part.startsWith(".")))
    .sort();
}
