// dependency-cruiser exits with 0 even if it could parse nothing. So this script also checks the number of modules.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const run = spawnSync("npx", ["depcruise", "services", "shared", "--config", ".dependency-cruiser.cjs"], {
  encoding: "utf8",
});
process.stdout.write(run.stdout + run.stderr);
const cruised = Number(/\((\d+) modules/.exec(run.stdout)?.[1] ?? 0);
if (run.status === 0 && cruised < 30) {
  console.error(`dependency-cruiser saw only ${cruised} modules: is its parser installed?`);
  process.exit(1);
}
const strays = pageImports().filter(({ isAllowed }) => !isAllowed);
for (const { file, target } of strays)
  console.error(
    `${file} imports ${target}: the page runs in a browser, and knows the services by their HTTP API alone`,
  );
process.exit(run.status || strays.length);

/** The imports of the operator's page. Biome finds its import cycles. */
function pageImports() {
  const page = "services/console-page";
  const files = readdirSync(page, { recursive: true })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(page, name));
  return files.flatMap((file) =>
    importsOf(file).map(({ target, isType }) => ({
      ...{ file, target },
      isAllowed: isOfPage(page, file, { target, isType }),
    })),
  );
}

function importsOf(file) {
  const found = readFileSync(file, "utf8").matchAll(/^(?:import\b[^"]*|export\b[^"]*\bfrom )"([^"]+)";$/gm);
  return [...found].map(([statement, target]) => ({ target, isType: /^\w+ type /.test(statement) }));
}

/**
 * Whether the page may import this file. From other folders, it may import only types of shared/console, and listed files without imports,
 * which run anywhere.
 */
function isOfPage(page, file, { target, isType }) {
  if (!target.startsWith(".")) return /^(preact|uplot)(\/|$)/.test(target);
  const found = relative(".", resolve(dirname(file), target));
  if (found.startsWith(`${page}/`)) return true;
  if (isType && found.startsWith("shared/console/")) return true;
  return (
    /^shared\/(platform\/errors\/codes|call\/job-ids|call\/search-text|webhook-auth\/advice|platform\/text\/[^/]+)\.ts$/.test(
      found,
    ) && importsOf(found).length === 0
  );
}
