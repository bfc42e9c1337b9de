// Makes modules of Lua files, for the bundler, the tests and Node alike. Plain JavaScript: it runs before anything is built.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const INCLUDE = /^[ \t]*--@include "([^"]+)"[ \t]*\n/m;

/**
 * Makes a module whose default export is the Lua. A line `--@include "./other.lua"` is replaced by the text of that file. It becomes
 * an import, so a bundle holds the text once.
 */
function moduleOf(lua) {
  // The paths are the odd ones of the parts.
  const parts = lua.split(INCLUDE);
  const imports = parts.map((path, i) =>
    i % 2 === 1 ? `import lua${i} from ${JSON.stringify(path)};\n` : "",
  );
  const texts = parts.map((text, i) => (i % 2 === 1 ? `lua${i}` : JSON.stringify(text)));
  return `${imports.join("")}export default ${texts.join(" + ")};\n`;
}

/** For Vite and Rolldown. */
export const luaPlugin = {
  name: "lua",
  load: {
    filter: { id: /\.lua$/ },
    handler: (id) => ({ code: moduleOf(readFileSync(id, "utf8")), moduleType: "js" }),
  },
};

/** A hook of Node's, which from-source.mjs registers. */
export function load(url, context, nextLoad) {
  if (!url.endsWith(".lua")) return nextLoad(url, context);
  const source = moduleOf(readFileSync(fileURLToPath(url), "utf8"));
  return { format: "module", source, shortCircuit: true };
}
