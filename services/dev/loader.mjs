// Turns .lua and .proto files into modules, for the bundler, the tests and Node. It is plain JavaScript because it runs
// before anything is built.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { includedLua } from "./bullmq-lua.mjs";

const INCLUDE = /^[ \t]*--@include "([^"]+)"[ \t]*\n/m;

const BULLMQS = "bullmq:";

/**
 * Makes a module whose default export is the Lua. A line `--@include "./other.lua"` is replaced by the text of that
 * file. The file is imported, so a bundle holds its text once. A line `--@include "bullmq:NAME"` is replaced by a
 * script of BullMQ (bullmq-lua.mjs).
 */
function luaModule(lua) {
  // After the split, the parts with odd indexes are the paths.
  const parts = lua.split(INCLUDE).map((text, i) => ({
    isImported: i % 2 === 1 && !text.startsWith(BULLMQS),
    text: i % 2 === 1 && text.startsWith(BULLMQS) ? includedLua(text.slice(BULLMQS.length)) : text,
  }));
  const imports = parts.map(({ isImported, text }, i) =>
    isImported ? `import lua${i} from ${JSON.stringify(text)};\n` : "",
  );
  const texts = parts.map(({ isImported, text }, i) => (isImported ? `lua${i}` : JSON.stringify(text)));
  return `${imports.join("")}export default ${texts.join(" + ")};\n`;
}

/** Makes a module whose default export is the descriptor of a .proto file, as JSON. */
function protoModule(text) {
  return `export default ${JSON.stringify(protobuf.parse(text, { keepCase: true }).root.toJSON())};\n`;
}

function moduleOf(path) {
  const text = readFileSync(path, "utf8");
  return path.endsWith(".lua") ? luaModule(text) : protoModule(text);
}

const LOADED = /\.(lua|proto)$/;

/** Plugin for Vite and Rolldown. */
export const loaderPlugin = {
  name: "lua-and-proto",
  load: { filter: { id: LOADED }, handler: (id) => ({ code: moduleOf(id), moduleType: "js" }) },
};

/** A module hook of Node, which from-source.mjs registers. */
export function load(url, context, nextLoad) {
  if (!LOADED.test(url)) return nextLoad(url, context);
  return { format: "module", source: moduleOf(fileURLToPath(url)), shortCircuit: true };
}
