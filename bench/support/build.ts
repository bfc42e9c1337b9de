import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import { luaPlugin } from "../../services/dev/lua.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The compiled form of a script of this project, or of another clone of it: what is compared runs from plain JavaScript on both sides. */
export function compiled(script: string, clone = root): string {
  const place = script.startsWith("bench/") ? "dist/.bench" : "dist";
  return join(clone, place, script.replace(/\.ts$/, ".js"));
}

/** Bundles the bench's own processes, with what they import of the program. */
export async function buildProcesses(): Promise<void> {
  const scripts = ["bench/baselines", "bench/processes"].flatMap((folder) =>
    readdirSync(join(root, folder)).map((file) => `${folder}/${file}`),
  );
  await build({
    cwd: root,
    input: Object.fromEntries(scripts.map((script) => [script.replace(/\.ts$/, ""), `./${script}`])),
    platform: "node",
    external: /^[^./]/, // packages
    plugins: [luaPlugin],
    logLevel: "warn",
    output: { dir: "dist/.bench", cleanDir: true, entryFileNames: "[name].js" },
  });
}
