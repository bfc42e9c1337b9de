import { expect, test } from "vitest";
import { compileDeclared } from "../../../../shared/platform/json-schema/job-input.ts";

const DRAFT_07 = "http://json-schema.org/draft-07/schema#";

function inputOf(schema: object, example: unknown) {
  const made = compileDeclared(schema, example);
  if (!made.ok) throw new Error(made.problem.message);
  return made.compiled;
}

/** Returns the mismatch between this JSON text and the schema. */
const mismatchOf = (schema: object, example: unknown, text: string) =>
  inputOf(schema, example).mismatch(Buffer.from(text));

const problem = (schema: unknown, example: unknown = {}) => {
  const made = compileDeclared(schema, example);
  return made.ok ? undefined : `${made.problem.of} ${made.problem.message}`;
};

const ORDER = {
  type: "object",
  properties: { items: { type: "array", items: { type: "integer" } }, note: { type: "string" } },
  required: ["items"],
  additionalProperties: false,
};

test("a body that matches its schema has no mismatch, and any other gets the position and the reason", () => {
  const example = { items: [1] };
  expect(mismatchOf(ORDER, example, '{"items":[1,2]}')).toBeUndefined();
  expect(mismatchOf(ORDER, example, '{"items":[1,"2"]}')).toEqual({
    pointer: "#/items/1",
    what: "must be integer",
  });
  expect(mismatchOf(ORDER, example, "{}")).toEqual({
    pointer: "#",
    what: "must have required property 'items'",
  });
  expect(mismatchOf(ORDER, example, '{"items":[],"itmes":1}')?.what).toContain('"itmes"');
});

test.each([
  ["nothing", "", "is empty"],
  ["text", "hello", "is not JSON in UTF-8"],
  ["JSON that is cut off", '{"items":[1', "is not JSON in UTF-8"],
  ["JSON in an open string", '{"items', "is not JSON in UTF-8"],
  ["JSON after a byte order mark", '\uFEFF{"items":[]}', "is not JSON in UTF-8"],
  ["two values", "{} {}", "is not JSON in UTF-8"],
])("a body that is %s is a mismatch, and is not quoted", (_what, text, what) => {
  expect(mismatchOf(ORDER, { items: [] }, text)).toEqual({ pointer: "#", what });
});

test("a body in another encoding than UTF-8 is a mismatch", () => {
  const latin1 = Buffer.from('{"items":[],"note":"\u00e9"}', "latin1");
  expect(inputOf(ORDER, { items: [] }).mismatch(latin1)?.what).toBe("is not JSON in UTF-8");
});

test("a body with too much depth or too many values is refused before it is parsed, for any content of its strings", () => {
  const anything = { type: ["array", "string"] };
  expect(mismatchOf(anything, [], "[".repeat(64) + "]".repeat(64))).toBeUndefined();
  expect(mismatchOf(anything, [], "[".repeat(65) + "]".repeat(65))?.what).toMatch(/more than 64 levels deep/);
  expect(mismatchOf(anything, [], "[".repeat(1_000_000))?.what).toMatch(/more than 64 levels deep/);
  expect(mismatchOf(anything, [], `[${"1,".repeat(99_998)}1]`)).toBeUndefined();
  expect(mismatchOf(anything, [], `[${"1,".repeat(99_999)}1]`)?.what).toMatch(/more than 100000 values/);
  expect(mismatchOf(anything, [], `["${'[,\\"'.repeat(100_000)}\\\\"]`)).toBeUndefined();
});

test.each([
  ["a pattern that backtracks", { type: "string", pattern: "^(a+)+$" }, "a", `"${"a".repeat(50)}b"`],
  [
    "unique items that are objects",
    { type: "array", uniqueItems: true },
    [],
    JSON.stringify(Array.from({ length: 30_000 }, (_, a) => ({ a }))),
  ],
  [
    "a recursion with two branches",
    {
      anyOf: [
        { type: "null" },
        { type: "object", properties: { a: { $ref: "#" } } },
        { type: "object", properties: { a: { $ref: "#" }, b: true } },
      ],
    },
    null,
    `${'{"a":'.repeat(60)}1${"}".repeat(60)}`,
  ],
  [
    "a long list of values for each item",
    { type: "array", items: { enum: Array.from({ length: 5000 }, (_, i) => `${"x".repeat(5)}${i}`) } },
    ["xxxxx1"],
    JSON.stringify(Array.from({ length: 90_000 }, () => "xxxxx4999")),
  ],
])("the check of %s stops after a tenth of a second", (_what, schema, example, text) => {
  const input = inputOf(schema, example);
  const body = Buffer.from(text);
  const before = performance.now();
  expect(input.mismatch(body)).toEqual({ pointer: "#", what: "takes too long to check" });
  expect(performance.now() - before).toBeLessThan(2000);
  expect(input.mismatch(Buffer.from(JSON.stringify(example)))).toBeUndefined();
});

test("inherited names of objects do not count as properties of a body", () => {
  const schema = { type: "object", required: ["constructor"] };
  expect(mismatchOf(schema, { constructor: 1 }, "{}")?.what).toContain("constructor");
  expect(mismatchOf(schema, { constructor: 1 }, '{"constructor":1}')).toBeUndefined();
});

test("the sentence about a mismatch has a bounded length, however long the names in a body are", () => {
  const name = "n\u202e/".repeat(2000);
  const schema = { additionalProperties: { additionalProperties: false } };
  const found = mismatchOf(schema, {}, JSON.stringify({ [name]: { [name]: 1 } }));
  expect(found?.pointer).toBe("#");
  expect(found?.what.length).toBeLessThan(300);
  const near = mismatchOf(schema, {}, JSON.stringify({ "a b/\u00e9": { x: 1 } }));
  expect(near?.pointer).toBe("#/a%20b~1%C3%A9");
});

test("a schema is read as 2020-12, or as draft-07 if it says so", () => {
  const tuple = { type: "array", prefixItems: [{ type: "string" }] };
  expect(mismatchOf(tuple, ["a"], "[1]")?.pointer).toBe("#/0");
  const old = { $schema: DRAFT_07, type: "array", items: [{ type: "string" }] };
  expect(mismatchOf(old, ["a"], "[1]")?.pointer).toBe("#/0");
  expect(problem({ type: "array", items: [{ type: "string" }] })).toMatch(/^schema does not compile/);
  expect(problem({ $schema: "https://json-schema.org/draft/2019-09/schema" })).toMatch(
    /unsupported \$schema/,
  );
});

test("schemas with the same $id do not affect each other", () => {
  const $id = "https://example.com/order";
  const one = inputOf({ $id, $defs: { a: { $id: "a", type: "string" } }, $ref: "a" }, "x");
  const other = inputOf({ $id, $defs: { a: { $id: "a", type: "integer" } }, $ref: "a" }, 1);
  expect([one, other].map((input) => input.mismatch(Buffer.from("1"))?.what)).toEqual([
    "must be string",
    undefined,
  ]);
  expect(problem({ $ref: "https://example.com/order" })).toMatch(
    /refers to .*other documents are not loaded/,
  );
});

test.each([
  ["no object", [], /^schema must be a JSON Schema object/],
  ["true", true, /^schema must be a JSON Schema object/],
  ["a misspelt keyword", { type: "object", requierd: ["a"] }, /unknown keyword: "requierd"/],
  ["an unknown type", { type: "text" }, /^schema does not compile/],
  ["an invalid pattern", { pattern: "(" }, /^schema does not compile/],
  ["a remote document", { $ref: "https://example.com/a.json#/b" }, /refers to https:\/\/example\.com\/a/],
  ["ajv's own asynchrony", { $async: true }, /\$async/],
])("a schema that is or has %s is refused", (_what, schema, message) => {
  expect(problem(schema)).toMatch(message);
});

test("an example is required, and must match the schema", () => {
  const made = compileDeclared(ORDER, undefined);
  expect(made).toMatchObject({ ok: false, problem: { of: "example", message: "is missing" } });
  expect(problem(ORDER, { items: [1.5] })).toBe(
    "example does not match the schema: #/items/0 must be integer",
  );
});

test("a long name in a mismatch is cut between two characters", () => {
  const name = `${"x".repeat(63)}\u{1f600}`;
  const found = mismatchOf(ORDER, { items: [1] }, JSON.stringify({ items: [1], [name]: 1 }));
  expect(found?.what).toMatch(new RegExp(`: "${"x".repeat(63)}\\.\\.\\."$`));
});
