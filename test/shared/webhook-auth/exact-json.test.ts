import fc from "fast-check";
import { expect, test } from "vitest";
import { parseExactJson } from "../../../shared/webhook-auth/exact-json.ts";

const parse = (text: string) => parseExactJson(Buffer.from(text));

type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, true, -0.5, 1e300, 9007199254740991, -12),
    fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
    fc.string({ unit: fc.constantFrom('"', "\\", "1234567890123456789", "-", "[", "e", "\u00e9", "😀") }),
    fc.array(tie("json"), { maxLength: 4 }),
    // Escapes in names are avoided, because JSON.parse of Node 24 and 26 sometimes misreads such a name
    // (nodejs/node#63785).
    fc.dictionary(fc.string({ unit: fc.constantFrom("[", ":", "98765432109876543", "a") }), tie("json"), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
  ),
}));

function textOf(value: Json, space: string): string {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((each) => textOf(each, space)).join(`${space},`)}${space}]`;
  const members = Object.entries(value).map(
    ([name, each]) => `${JSON.stringify(name)}:${space}${textOf(each, space)}`,
  );
  return `{${members.join(",")}}`;
}

const isSafe = (value: bigint) => Number.isSafeInteger(Number(value));

function withTexts(value: Json): unknown {
  if (typeof value === "bigint") return isSafe(value) ? Number(value) : String(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withTexts);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withTexts(each)]));
}

test("each whole number beyond the safe range becomes the text of its digits, and all else is parsed as by JSON.parse", () => {
  fc.assert(
    fc.property(json, fc.constantFrom("", " ", "\n\t"), (value, space) => {
      expect(parse(textOf(value, space))).toEqual(withTexts(value));
    }),
    { numRuns: 1000 },
  );
});

test.each([
  ["9007199254740991", 9007199254740991],
  ["9007199254740992", "9007199254740992"],
  ["-9007199254740992", "-9007199254740992"],
  ["1000000000000000", 1e15],
  ["10000000000000000000.0", 1e19],
  ["1e2", 100],
  ["10000000000000000000e1", 1e20],
  ['{"id":1,"id":90071992547409930}', { id: "90071992547409930" }],
  ['{"id":90071992547409930,"id":1}', { id: 1 }],
])("parsing %s exactly yields %j", (text, value) => {
  expect(parse(text)).toEqual(value);
});

const HALF_A_MEGABYTE = 500_000;

/** A recursive parser would overflow its stack, and one that reads bytes repeatedly would not finish. */
test("a text with half a million nested levels is parsed", () => {
  let inner = parse(`${"[".repeat(HALF_A_MEGABYTE)}90071992547409930${"]".repeat(HALF_A_MEGABYTE)}`);
  while (Array.isArray(inner)) [inner] = inner;
  expect(inner).toBe("90071992547409930");
});

test.each(['\\\\"', "\\\\", "1"])("a text of half a million times %s is looked through", (piece) => {
  const text = piece.repeat(HALF_A_MEGABYTE);
  expect(parse(JSON.stringify([text, 1]))).toEqual([text, 1]);
  expect(parse(`[${"1e-5,".repeat(HALF_A_MEGABYTE)}90071992547409930]`)).toContain("90071992547409930");
});
