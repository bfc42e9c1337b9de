// Builds the program if it is not what the sources say. Plain JavaScript: it runs before anything is built.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What the build is made from. The lockfile says which compiler. */
const SOURCES = ["services", "shared", "tsconfig.json", "tsconfig.build.json", "package-lock.json"];

/** What the build runs with node, one after the other: the compiler, then the bundler of the operator's page. */
export const BUILD_STEPS = [
  ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"],
  [
    ...["node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"],
    ...["--config", "services/operator-page/vite.config.mjs"],
  ],
];

/** Of the sources and of what is built. */
const READ = /\.(ts|tsx|mjs|json|lua|css|html|svg)$/;
const BUILT = /\.(js|css|html|svg)$/;

/**
 * Runs `compile` unless `dist` holds what it made from these very sources. Only contents count, never times: a checkout or
 * a restored backup may give a file any time, and something else may have built in between.
 */
export function buildIfChanged(root, compile) {
  const stamp = join(root, "dist/.built");
  const sources = digest(root, SOURCES, READ);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === stampOf(root, sources)) return;
  rmSync(join(root, "dist/.tsbuildinfo"), { force: true }); // the tests' compiler would trust it for what is built here
  compile();
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

function filesOf(root, place, pattern) {
  if (/\.json$/.test(place)) return [place];
  const entries = readdirSync(join(root, place), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(root.length + 1))
    .sort();
}
