// dependency-cruiser exits 0 when it could parse nothing, so the number of modules it saw is checked too.
import { spawnSync } from "node:child_process";

const run = spawnSync("npx", ["depcruise", "services", "shared", "--config", ".dependency-cruiser.cjs"], {
  encoding: "utf8",
});
process.stdout.write(run.stdout + run.stderr);
const cruised = Number(/\((\d+) modules/.exec(run.stdout)?.[1] ?? 0);
if (run.status === 0 && cruised < 30) {
  console.error(`dependency-cruiser saw only ${cruised} modules: is its parser installed?`);
  process.exit(1);
}
process.exit(run.status ?? 1);
