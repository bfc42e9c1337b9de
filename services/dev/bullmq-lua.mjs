// Prepares BullMQ's Lua scripts, which some of our own Lua scripts include (loader.mjs). It is plain JavaScript because
// it runs before anything is built.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parse } from "luaparse";

/**
 * SHA-256 of each BullMQ script that our scripts include, by the name that BullMQ gives it. The number in a name is the
 * number of the script's KEYS. If a release of BullMQ changes a script, the build fails. Write the new checksum here
 * only after you have reviewed the changes (CONTRIBUTING.md).
 */
export const CHECKSUMS = {
  "addStandardJob-9": "2eee45c9ffc54d24681b737f926016a7f7464f0d32a5f87f623bffa2fc55413c",
  "moveJobFromActiveToWait-9": "ac9546cdd23294a20e0941aa531b52d83ce387e69a6a3c251af5ca0266bb0753",
  "moveStalledJobsToWait-9": "dad86d89b50d825fb9ad1e95ef0ca9ae459ba16e837663fdbfc7be6de003debb",
  "moveToActive-11": "7d35069db0b831af1bd1b2d5eb8d524e86fc7d3280b8c684a96b6614bad7d79a",
  "moveToDelayed-11": "1a7b9311ef92fd66416973c29fa8b2c909cec58d0bfcf3e5ab53bb07ea1664d7",
  "moveToFinished-14": "8e744ec5d65dbe9e7ffb6e39a96c0268bba65e4f0b1d04e2d2a42ccb71b45a6d",
  "removeJob-2": "f2acb16fda20ccac200abd5289a8910e48870d454c1577b19bd375ab809bb4b6",
  "reprocessJob-9": "4ea1093385a876769f604fb60e2db13d993b0a801caaea7c2262a36ef589fdc7",
};

const IN_BOTH_SCRIPTS = [
  ['rcall("XADD", eventStreamKey, "*", "event", "active", "jobId", jobId, "prev", "waiting")\n', "\n"],
  ["addBaseMarkerIfNeeded(markerKey, false)\n", "\n"],
  [
    'delayedKey, 0, (timestamp + 1) * 0x1000 - 1, "LIMIT", 0, 1000)',
    'delayedKey, "0", string.format("%.0f", (timestamp + 1) * 0x1000 - 1), "LIMIT", "0", "1000")',
  ],
  ['rcall("HINCRBY", jobKey, "ats", 1)', 'rcall("HINCRBY", jobKey, "ats", "1")'],
];

/**
 * Pairs of a text in BullMQ's script and the text that replaces it. They make two scripts faster: `moveToActive` takes a
 * call, and `moveToFinished` ends it. They apply where our scripts for batches of calls include these two in parts
 * (`includedLua`).
 *
 * Most replacements remove Redis commands, which are most of a script's cost. Half of BullMQ's commands have no use
 * here: no process reads the events and the marker, and no call has a parent, dependencies or deduplication. When a call
 * ends and is removed, its number of attempts is not written, because it would be deleted with the call.
 *
 * Other replacements pass numbers to Redis as text. Lua would otherwise format each number with 17 digits, which takes a
 * third of a command's time.
 */
const REPLACED = {
  "moveToActive-11": IN_BOTH_SCRIPTS,
  "moveToFinished-14": [
    ...IN_BOTH_SCRIPTS,
    ['if rcall("SCARD", jobIdKey .. ":dependencies") ~= 0 then\n', "if false then\n"],
    ['if rcall("ZCARD", jobIdKey .. ":unsuccessful") ~= 0 then\n', "if false then\n"],
    ['rcall("HMGET", jobIdKey, "parentKey", "parent", "deid")', "{}"],
    ['rcall("LREM", KEYS[2], -1, jobId)', 'rcall("LREM", KEYS[2], "-1", jobId)'],
    ["    trimEvents(metaKey, eventStreamKey)\n", ""],
    ['rcall("HINCRBY", jobIdKey, "atm", 1)', "1"],
    [
      'rcall("XADD", eventStreamKey, "*", "event", ARGV[5], "jobId", jobId, ARGV[3], ARGV[4], "prev", "active")\n',
      "\n",
    ],
  ],
};

/**
 * Global names that BullMQ's Lua may read. If it reads another global, `parsed` throws an error. When only a part of a
 * script is included, such a name may be a local variable that is defined in the other part.
 */
const GLOBALS = new Set([
  ...["redis", "cjson", "cmsgpack", "math", "string", "table"],
  ...["ipairs", "pairs", "tonumber", "tostring", "type", "unpack"],
]);

/** Global names that a complete script may read, whose KEYS and ARGV Redis sets. */
const SCRIPT_GLOBALS = new Set([...GLOBALS, "KEYS", "ARGV"]);

const require = createRequire(import.meta.url);

/** Returns the text of a script as BullMQ sends it to Redis. `folder` is the folder of the installed BullMQ package. */
export function readScript(folder, name) {
  const [exported] = Object.values(require(join(folder, "dist/cjs/scripts", `${name}.js`)));
  return exported.content;
}

export const checksumOf = (lua) => createHash("sha256").update(lua).digest("hex");

/**
 * Returns the Lua that replaces the line `--@include "bullmq:NAME"` in one of our scripts: BullMQ's script without its
 * comments. It reads the KEYS and ARGV of our script. For `NAME/functions` it returns only the functions that BullMQ's
 * script defines, and for `NAME/body` the rest. With these parts, a script that handles several calls defines the
 * functions once, and runs the body for each call.
 */
export function includedLua(path) {
  const [name, part] = path.split("/");
  const script = readScript(join(require.resolve("bullmq/package.json"), ".."), name);
  refuseChanged(name, script);
  const lua = withoutComments(name, script);
  if (part === undefined) return lua;
  const parts = split(name, replaced(name, lua));
  if (Object.hasOwn(parts, part)) return parts[part];
  throw new Error(`the parts of a BullMQ script are functions and body, not ${part}`);
}

function replaced(name, lua) {
  return (REPLACED[name] ?? []).reduce((text, [from, to]) => {
    if (text.includes(from)) return text.replaceAll(from, to);
    throw new Error(`BullMQ's script ${name} does not have the text ${from.trim()}`);
  }, lua);
}

export function refuseChanged(name, lua) {
  const found = checksumOf(lua);
  if (CHECKSUMS[name] === found) return;
  throw new Error(
    `BullMQ's script ${name} has changed since our Lua was written. Compare both releases of BullMQ with ` +
      `"node services/dev/compare-bullmq.mjs OLD NEW". If our Lua is also right for the new script, write the new checksum into ` +
      `services/dev/bullmq-lua.mjs: ${found}`,
  );
}

/**
 * Parses Lua that Redis runs. Throws if it is invalid, reads a global that is not in `globals`, or has syntax that this
 * file does not support.
 */
function parsed(name, lua, globals = GLOBALS) {
  const refuse = (found) => {
    throw new Error(`BullMQ's script ${name} ${found}, which services/dev/bullmq-lua.mjs does not support`);
  };
  const found = { declared: [], assigned: [] };
  const chunk = parse(lua, {
    luaVersion: "5.1",
    scope: true,
    ranges: true,
    onLocalDeclaration: (local) => found.declared.push(local),
    onCreateNode({ type, raw, variables }) {
      if (type === "StringLiteral" && raw.includes("\n")) refuse("has a string of several lines");
      if (type === "VarargLiteral") refuse('reads "..."');
      if (type === "AssignmentStatement") found.assigned.push(...variables.map((variable) => variable.name));
    },
  });
  const unknown = chunk.globals.filter((global) => !globals.has(global.name));
  if (unknown.length > 0) refuse(`reads the global ${unknown.map((global) => global.name).join(", ")}`);
  return { ...found, statements: chunk.body, comments: chunk.comments };
}

/** Removes comments and blank lines. Blank lines have no meaning, because no string has several lines. */
function withoutComments(name, lua) {
  const { comments } = parsed(name, lua, SCRIPT_GLOBALS);
  const places = [0, ...comments.flatMap(({ range }) => range), lua.length];
  const kept = places.filter((_, i) => i % 2 === 0).map((from, i) => lua.slice(from, places[2 * i + 1]));
  const lines = kept.join(" ").split("\n");
  return lines
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .map((line) => `${line}\n`)
    .join("");
}

/**
 * Splits a script into its functions and the rest. Throws if the parts could behave differently from the whole script.
 * So a function may use only functions that the script defines before it. And the name of a function or a global may
 * not be defined a second time.
 */
export function split(name, lua) {
  const { statements, declared, assigned } = parsed(name, lua, SCRIPT_GLOBALS);
  const textOf = (some) => some.map(({ range }) => `${lua.slice(...range)}\n`).join("");
  const functions = textOf(statements.filter((statement) => functionName(statement) !== undefined));
  const body = textOf(statements.filter((statement) => functionName(statement) === undefined));
  parsed(name, `${functions}local function bullmq(KEYS, ARGV)\n${body}end\n`);
  const own = statements.map(functionName).filter((found) => found !== undefined);
  for (const known of [...own, ...SCRIPT_GLOBALS]) {
    const meanings = declared.filter((local) => local === known).length;
    if (meanings === (own.includes(known) ? 1 : 0) && !assigned.includes(known)) continue;
    throw new Error(`BullMQ's script ${name} defines the name ${known} again`);
  }
  return { functions, body };
}

/**
 * Returns the name of the function that a statement defines: `local function f`, `local f = function`, or
 * `local rcall = redis.call`, which all functions use. Returns undefined for any other statement.
 */
function functionName({ type, isLocal, identifier, variables, init }) {
  if (type === "FunctionDeclaration" && isLocal) return identifier.name;
  if (type !== "LocalStatement" || variables.length !== 1 || init.length !== 1) return undefined;
  const [{ name }] = variables;
  const [value] = init;
  const isRcall = name === "rcall" && value.base?.name === "redis" && value.identifier?.name === "call";
  return value.type === "FunctionDeclaration" || isRcall ? name : undefined;
}
