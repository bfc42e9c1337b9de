// dependency-cruiser exits 0 when it could parse nothing, so the number of modules it saw is checked too.
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

/** What the operator's page imports. Biome finds its cycles. */
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

/** Of what is shared: the types of what the console answers, and what runs anywhere, since it imports nothing itself. */
function isOfPage(page, file, { target, isType }) {
  if (!target.startsWith(".")) return /^(preact|uplot)(\/|$)/.test(target);
  const found = relative(".", resolve(dirname(file), target));
  if (found.startsWith(`${page}/`)) return true;
  if (isType && found.startsWith("shared/console/")) return true;
  return (
    /^shared\/(platform\/errors\/codes|call\/job-ids|webhook-auth\/advice|platform\/text\/[^/]+)\.ts$/.test(
      found,
    ) && importsOf(found).length === 0
  );
}
