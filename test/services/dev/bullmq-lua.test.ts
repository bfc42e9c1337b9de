import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  CHECKSUMS,
  checksumOf,
  includedLua,
  readScript,
  refuseChanged,
  split,
} from "../../../services/dev/bullmq-lua.mjs";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const PACKAGE = join(root, "node_modules/bullmq");
const NAMES = Object.keys(CHECKSUMS);

test.each(NAMES)("BullMQ's script %s is the version for which our Lua was written", (name) => {
  expect(() => refuseChanged(name, readScript(PACKAGE, name))).not.toThrow();
});

test("a script that BullMQ has only reformatted is refused, with advice and the new checksum", () => {
  const [name = ""] = NAMES;
  const formatted = readScript(PACKAGE, name).replaceAll("\n  ", "\n\t");
  const refused = () => refuseChanged(name, formatted);
  expect(refused).toThrow(`BullMQ's script ${name} has changed since our Lua was written`);
  expect(refused).toThrow("node services/dev/compare-bullmq.mjs OLD NEW");
  expect(refused).toThrow(checksumOf(formatted));
});

test.each([
  ["a script of another name", "moveToNowhere-3", "Cannot find module"],
  ["a script without a checksum", "pause-7", "BullMQ's script pause-7 has changed since our Lua was written"],
  ["another part", "addStandardJob-9/head", "not head"],
])("an include of %s is refused", (_, path, reason) => {
  expect(() => includedLua(path)).toThrow(reason);
});

test("a script's functions and its body together are the whole script, except its comments", () => {
  const lua = `--[[ local function no()
  end ]]
local rcall = redis.call -- how "functions" call Redis
local key = KEYS[1]
local function read(id) if id then return rcall("GET", id) end end
local both = function (a)
  for _, id in ipairs(a) do read(id) end
end
both({key, ARGV[1]})
return read(key)
`;
  const { functions, body } = split("mine-1", lua);
  expect(functions.split("\n")).toEqual([
    "local rcall = redis.call",
    'local function read(id) if id then return rcall("GET", id) end end',
    "local both = function (a)",
    "  for _, id in ipairs(a) do read(id) end",
    "end",
    "",
  ]);
  expect(body).toBe("local key = KEYS[1]\nboth({key, ARGV[1]})\nreturn read(key)\n");
});

const HEAD = "local rcall = redis.call\n";
const DEFINED_AGAIN = "defines the name read again";

test.each([
  [
    "a function that uses a local of the body",
    "local key = KEYS[1]\nlocal function read() return key end",
    "reads the global key",
  ],
  ["a function that uses KEYS", "local function read() return KEYS[1] end", "reads the global KEYS"],
  [
    "a function that uses a later one",
    "local function read() return later() end\nlocal function later() end",
    "reads the global later",
  ],
  ["a body that defines a function without local", "function read() end", "reads the global read"],
  [
    "a function that is declared ahead",
    "local read\nread = function() end\nlocal function other() return read() end",
    "reads the global read",
  ],
  ["a function that the body replaces", "local function read() end\nread = tostring", DEFINED_AGAIN],
  [
    "a function of which there are two",
    "local function read() end\nread()\nlocal function read() end",
    DEFINED_AGAIN,
  ],
  [
    "a local of the body with a function's name",
    "local function read() end\ndo local read = 1 end",
    DEFINED_AGAIN,
  ],
  [
    "a local of the body with the name of a global",
    "local type = KEYS[1]\nlocal function read() return type end",
    "defines the name type again",
  ],
  ["a new ARGV", "local function read() end\nARGV = {}", "defines the name ARGV again"],
  ["a global that Redis does not know", "return os.time()", "reads the global os"],
  ["arguments without names", "return ...", 'reads "..."'],
  ["a text of several lines", "return [[a\n\nb]]", "a string of several lines"],
  ["what is no Lua", "local function read() return", "expected"],
])("a script with %s is refused", (_, lua, reason) => {
  expect(() => split("mine-1", `${HEAD}${lua}\n`)).toThrow(reason);
});

onlyInLongRun(() => {
  test("two releases are compared by the scripts that we include, and the new checksums are printed", () => {
    const newer = tempDir();
    cpSync(PACKAGE, newer, { recursive: true });
    const change = (name: string, from: string, to: string) => {
      const file = join(newer, "dist/cjs/scripts", name);
      writeFileSync(file, readFileSync(file, "utf8").replace(from, to));
    };
    change("moveToActive-11.js", "RPOPLPUSH", "RPOPLPUSH2");
    change("pause-7.js", "rcall", "rcall2");
    const compare = (...releases: string[]) => {
      const program = join(root, "services/dev/compare-bullmq.mjs");
      const { stdout, stderr, status } = spawnSync(process.execPath, [program, ...releases], {
        encoding: "utf8",
      });
      return { stdout, stderr, status };
    };
    const { stdout, stderr } = compare(PACKAGE, newer);
    expect(stderr).toBe("");
    expect(stdout).toContain('+local jobId = rcall("RPOPLPUSH2"');
    expect(stdout).toContain(`  "moveToActive-11": "${checksumOf(readScript(newer, "moveToActive-11"))}",\n`);
    expect(stdout).not.toContain("rcall2");
    expect(compare(PACKAGE, PACKAGE).stdout).toBe("No script that our Lua includes has changed.\n");
    expect(compare(PACKAGE)).toMatchObject({ status: 2, stderr: expect.stringContaining("OLD NEW") });
  });
});
