import { expect, test } from "vitest";
import { defineScript } from "../../../shared/redis/define-script.ts";
import {
  bytes,
  flag,
  integer,
  list,
  nothing,
  numeric,
  oneOf,
  optional,
  text,
  tuple,
} from "../../../shared/redis/reply.ts";
import { useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();

/** A script that returns all its keys and arguments. */
const ECHO = defineScript({
  source: `return {{KEYS.one, KEYS.two, KEYS[FIRST.others] or ''}, {ARGV.first, ARGV.second, ARGV[FIRST.items] or ''},
  #KEYS, #ARGV, WIDTH.items, MOST, NAMES.of, 'MOST of KEYS.two'} -- MOST
`,
  keys: "one, two, ...others",
  args: "first, second, ...items(a, b)",
  constants: { MOST: 7, NAMES: { of: "it's \\ a\nname" } },
  proof: "expendable",
  reply: tuple(list(text), list(text), integer, integer, integer, integer, text, text),
});

const KEYS = { one: "{t}:1", two: "{t}:2", others: [] };

test("a script gets its arguments by name, and reads them by these names", async () => {
  const echo = ECHO.on(redis.client);
  const rest = [2, 7, "it's \\ a\nname", "MOST of KEYS.two"];
  const given = { second: Buffer.from("2"), first: "1" };
  const none = await echo(KEYS, { ...given, items: [] });
  expect(none).toEqual([["{t}:1", "{t}:2", ""], ["1", "2", ""], 2, 2, ...rest]);
  const items = [
    { b: true, a: undefined },
    { a: 3, b: false },
  ];
  const some = await echo({ ...KEYS, others: ["{t}:3", "{t}:4"] }, { ...given, items });
  expect(some).toEqual([["{t}:1", "{t}:2", "{t}:3"], ["1", "2", ""], 4, 6, ...rest]);
});

test("a call that leaves out a name, or has an additional one, does not compile", () => {
  const echo = ECHO.on(redis.client);
  const neverCalled = [
    // @ts-expect-error: the key `one` is missing
    () => echo({ two: "", others: [] }, { first: 1, second: 2, items: [] }),
    // @ts-expect-error: the key `more` is not declared
    () => echo({ ...KEYS, more: "" }, { first: 1, second: 2, items: [] }),
    // @ts-expect-error: the argument `items` is missing
    () => echo(KEYS, { first: 1, second: 2 }),
    // @ts-expect-error: the field `b` of an item is missing
    () => echo(KEYS, { first: 1, second: 2, items: [{ a: 1 }] }),
    // @ts-expect-error: all arguments are missing
    () => echo(KEYS),
  ];
  expect(neverCalled).toHaveLength(5);
});

test("Redis learns a script that it does not know, each time it has forgotten it", async () => {
  const echo = ECHO.on(redis.client);
  const args = { first: 1, second: 2, items: [] };
  const first = await echo(KEYS, args);
  await redis.client.script("FLUSH");
  expect(await echo(KEYS, args)).toEqual(first);
  await redis.client.config("RESETSTAT");
  await echo(KEYS, args);
  expect(await redis.client.info("commandstats")).not.toMatch(/cmdstat_eval:/);
});

const define = (source: string) => () =>
  defineScript({ source, keys: "one, two", args: "first", proof: "expendable", reply: nothing });

test.each([
  ["that reads a key of another name", "return KEYS.three", "KEYS.three"],
  ["that reads a word of another name", "return ARGV.two", "ARGV.two"],
  ["that reads a constant that is not there", "return MOST", "MOST"],
  ["that counts items it does not have", "return FIRST.items", "FIRST.items"],
])("a script %s is refused when it is defined", (_, source, reason) => {
  expect(define(source)).toThrow(reason);
});

test("items of KEYS and of ARGV must have different names, because FIRST and WIDTH cover both", () => {
  expect(() =>
    defineScript({ source: "", keys: "...items", args: "...items", proof: "expendable", reply: nothing }),
  ).toThrow("a name occurs twice");
});

test("names that the Lua declares itself, and those in texts and comments, are not replaced", () => {
  const own =
    "local OPEN, FREE = 0, {} -- SOME COMMENT\nreturn redis.call('GET', KEYS.one), OPEN, FREE, \"OTHER 'TEXT'\"\n";
  const { lua } = defineScript({
    source: own,
    keys: "one, two",
    args: "first",
    proof: "expendable",
    reply: nothing,
  });
  expect(lua).toBe(own.replace("KEYS.one", "KEYS[1]"));
});

test.each([
  ["text", text, 1],
  ["bytes", bytes, "text"],
  ["an integer", integer, "1"],
  ["a number", numeric, "one"],
  ["1 or 0", flag, 2],
  ["a or b", oneOf("a", "b"), "c"],
  ["an array", list(text), "a"],
  ["an array of 1", tuple(text), ["a", "b"]],
  ["text", tuple(text, text), ["a"]],
  ["text", optional(text), 1],
])("a reply that is not %s is refused", (wanted, decode: (reply: unknown) => unknown, reply) => {
  expect(() => decode(reply)).toThrow(`a Redis script returned`);
  expect(() => decode(reply)).toThrow(wanted);
});

test("values that Lua leaves out of a reply are undefined if they are optional", () => {
  expect(tuple(text, optional(text), optional(integer))(["a", null])).toEqual(["a", undefined, undefined]);
});

test("strings of a script that answers bytes are not decoded", async () => {
  const read = defineScript({
    source: "return '\\255'",
    keys: "one",
    strings: "bytes",
    proof: "expendable",
    reply: bytes,
  });
  expect(await read.on(redis.client)({ one: "{t}:1" })).toEqual(Buffer.from([255]));
});
