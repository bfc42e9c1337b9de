// BullMQ's Lua, as ours includes it (lua.mjs). Plain JavaScript: it runs before anything is built.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parse } from "luaparse";

/**
 * SHA-256 of each script of BullMQ's that ours include, by BullMQ's name of it; the number is how many KEYS it has. A checksum is renewed
 * after somebody has looked through what has changed (CONTRIBUTING.md).
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

const OF_BOTH = [
  ['rcall("XADD", eventStreamKey, "*", "event", "active", "jobId", jobId, "prev", "waiting")\n', "\n"],
  ["addBaseMarkerIfNeeded(markerKey, false)\n", "\n"],
  [
    'delayedKey, 0, (timestamp + 1) * 0x1000 - 1, "LIMIT", 0, 1000)',
    'delayedKey, "0", string.format("%.0f", (timestamp + 1) * 0x1000 - 1), "LIMIT", "0", "1000")',
  ],
  ['rcall("HINCRBY", jobKey, "ats", 1)', 'rcall("HINCRBY", jobKey, "ats", "1")'],
];

/**
 * Replacements in what batches include: `/functions` and `/body` of the scripts that end a call and take one. The number of commands is most
 * of what such a step costs Redis, and half of BullMQ's do nothing here. The events and the marker have no reader. No call has a parent,
 * dependencies or deduplication. The attempts of a call that leaves go with it. Lua prints a number for Redis with 17 digits, which costs a
 * third of a command, so numbers are given as text.
 */
const REPLACED = {
  "moveToActive-11": OF_BOTH,
  "moveToFinished-14": [
    ...OF_BOTH,
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

/** Names that BullMQ's Lua may read beside its own. Another name may be a local that is missing where only a part of the script is included. */
const GLOBALS = new Set([
  ...["redis", "cjson", "cmsgpack", "math", "string", "table"],
  ...["ipairs", "pairs", "tonumber", "tostring", "type", "unpack"],
]);

/** The same for a whole script. */
const OF_SCRIPT = new Set([...GLOBALS, "KEYS", "ARGV"]);

const require = createRequire(import.meta.url);

/** The text of one of BullMQ's scripts, as BullMQ sends it. `folder` has the package. */
export function readScript(folder, name) {
  const [exported] = Object.values(require(join(folder, "dist/cjs/scripts", `${name}.js`)));
  return exported.content;
}

export const checksumOf = (lua) => createHash("sha256").update(lua).digest("hex");

/**
 * Lua for `--@include "bullmq:NAME"`: the script without its comments. Its KEYS and ARGV are what has these names around it.
 * `NAME/functions` has only the functions that the script defines, and `NAME/body` the rest, so that a batch makes the functions once.
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

/** Lua that Redis runs. Throws if it is no Lua, reads a global that is not among these, or has what is not provided for here. */
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

/** Blank lines mean nothing, because no text has several lines. */
function withoutComments(name, lua) {
  const { comments } = parsed(name, lua, OF_SCRIPT);
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
 * The functions of a script, and the rest. Throws if a function uses more of the script than the functions before it, or if the name of a
 * function or a global has a second meaning in the script: the parts would then do something else than the whole.
 */
export function split(name, lua) {
  const { statements, declared, assigned } = parsed(name, lua, OF_SCRIPT);
  const textOf = (some) => some.map(({ range }) => `${lua.slice(...range)}\n`).join("");
  const functions = textOf(statements.filter((statement) => functionName(statement) !== undefined));
  const body = textOf(statements.filter((statement) => functionName(statement) === undefined));
  parsed(name, `${functions}local function bullmq(KEYS, ARGV)\n${body}end\n`);
  const own = statements.map(functionName).filter((found) => found !== undefined);
  for (const known of [...own, ...OF_SCRIPT]) {
    const meanings = declared.filter((local) => local === known).length;
    if (meanings === (own.includes(known) ? 1 : 0) && !assigned.includes(known)) continue;
    throw new Error(`BullMQ's script ${name} defines the name ${known} again`);
  }
  return { functions, body };
}

/** Of `local function f`, of `local f = function`, and of `local rcall = redis.call`, with which all functions call Redis. */
function functionName({ type, isLocal, identifier, variables, init }) {
  if (type === "FunctionDeclaration" && isLocal) return identifier.name;
  if (type !== "LocalStatement" || variables.length !== 1 || init.length !== 1) return undefined;
  const [{ name }] = variables;
  const [value] = init;
  const isRcall = name === "rcall" && value.base?.name === "redis" && value.identifier?.name === "call";
  return value.type === "FunctionDeclaration" || isRcall ? name : undefined;
}
