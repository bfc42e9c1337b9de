// Builds the program if it is not what the sources say. Plain JavaScript: it runs before anything is built.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

/** What the build is made from. package.json names what is built, and the lockfile says with what. */
const SOURCES = [
  ...["services", "shared", "package.json", "package-lock.json"],
  ...["tsconfig.json", "tsconfig.build.json"],
];

/** The steps of the script `build` in package.json, each run with node: the bundlers, and the compiler for the types. */
const STEPS = [["services/dev/bundle.mjs"], ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"]];

/** Programs that package.json does not name: another program, the image or a clone starts them. */
const OTHER_PROGRAMS = [
  "services/dev/demo/main.ts",
  "services/health/main.ts",
  "services/pricing/main-with-x402.ts",
];

/** The sources of all programs, and of what the package exports. */
export function entrySources(root) {
  const { bin, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const built = [bin.postern, ...Object.values(exports).flatMap(({ default: file }) => file ?? [])];
  const named = built.map((file) => file.replace(/^(\.\/)?dist\//, "").replace(/\.js$/, ".ts"));
  return [...named, ...OTHER_PROGRAMS];
}

/** Of the sources and of what is built. */
const READ = /\.(ts|tsx|mjs|json|lua|proto|css|html|svg)$/;
const BUILT = /\.(js|ts|css|html|svg|json|txt)$/;

/**
 * Builds unless `dist` holds what was made from these very sources; `run` gets the arguments of Node for each step. Only contents count,
 * never times: a checkout or a restored backup may give a file any time, and something else may have built in between.
 */
export function buildIfChanged(root, run) {
  const stamp = join(root, "dist/.built");
  const sources = digest(root, SOURCES, READ);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === stampOf(root, sources)) return;
  console.error("Building ...");
  for (const step of STEPS) run(step);
  // Sources that were edited meanwhile may be built in part.
  if (digest(root, SOURCES, READ) === sources) writeFileSync(stamp, stampOf(root, sources));
}

function stampOf(root, sources) {
  return `${sources} ${digest(root, ["dist"], BUILT)}\n`;
}

/** One digest of the names and contents of these files, and of those in these folders that the pattern names. */
function digest(root, places, pattern) {
  const hash = createHash("sha256");
  for (const file of places.flatMap((place) => filesOf(root, place, pattern))) {
    const content = readFileSync(join(root, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

/** Without hidden files and folders: the bench builds into one of dist. */
function filesOf(root, place, pattern) {
  if (/\.json$/.test(place)) return [place];
  const entries = readdirSync(join(root, place), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.split(sep).some((part) => part.startsWith(".")))
    .sort();
}
