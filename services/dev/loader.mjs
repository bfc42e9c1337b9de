// Turns .lua and .proto files into JavaScript modules, so that the sources can import them. The bundler, the tests and
// Node load them with it. It is plain JavaScript because it runs before anything is built.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { includedLua } from "./bullmq-lua.mjs";

const INCLUDE = /^[ \t]*--@include "([^"]+)"[ \t]*\n/m;

const BULLMQS = "bullmq:";

/**
 * Makes a module whose default export is the text of a Lua script. A line `--@include "./other.lua"` is replaced by the
 * text of that file. The module imports the other file, so that a bundle contains the file once even if several scripts
 * include it. A line `--@include "bullmq:NAME"` is replaced by a script of BullMQ (bullmq-lua.mjs).
 */
function luaModule(lua) {
  // The pattern has a group, so the split also returns the included paths. They have the odd indexes.
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

/** Plugin with which Vite and Rolldown load .lua and .proto files. */
export const loaderPlugin = {
  name: "lua-and-proto",
  load: { filter: { id: LOADED }, handler: (id) => ({ code: moduleOf(id), moduleType: "js" }) },
};

/** Hook with which Node loads .lua and .proto files. from-source.mjs registers it. */
export function load(url, context, nextLoad) {
  if (!LOADED.test(url)) return nextLoad(url, context);
  return { format: "module", source: moduleOf(fileURLToPath(url)), shortCircuit: true };
}
