import { expect, test } from "vitest";
import {
  parseDictionary,
  serializeBareItem,
  serializeList,
} from "../../../shared/webhook-auth/http-signature/structured-fields.ts";

const MALFORMED = { message: "malformed: x must be a dictionary of structured fields (RFC 9651)" };
/** Longer than all headers of a request together. */
const LONG = 20_000;

test("the members of a dictionary have the values and parameters that were sent", () => {
  const members = parseDictionary(
    String.raw` a=1,b="q\"\\" , c=:aGk=:;p;q=?0,d=("x";name="n"  tok:en/* 1.5 );r=-7, *e.f-g_1;s`,
    "x",
  );
  const value = (key: string) => members.get(key)?.value;
  expect([...members.keys()]).toEqual(["a", "b", "c", "d", "*e.f-g_1"]);
  expect([value("a"), value("b"), value("c"), value("*e.f-g_1")]).toEqual([
    ...[1, String.raw`q"\ `.trim(), Buffer.from("hi"), true],
  ]);
  expect(members.get("c")?.parameters).toEqual(
    new Map([
      ["p", true],
      ["q", false],
    ]),
  );
  const list = members.get("d")!;
  expect(serializeList(list.value as [], list.parameters)).toBe('("x";name="n" tok:en/* 1.5);r=-7');
  expect(serializeBareItem(value("b") as string)).toBe(String.raw`"q\"\\"`);
  expect(serializeBareItem(value("c") as Buffer)).toBe(":aGk=:");
});

test.each([
  ["nothing", ""],
  ["a comma at the end", "a=1,"],
  ["no comma", "a=1 b=2"],
  ["an upper-case key", "A=1"],
  ["an item without a value", "a="],
  ["an integer of 16 digits", "a=1234567890123456"],
  ["a decimal of 4 places", "a=1.2345"],
  ["items without a space", 'a=("b""c")'],
  ["a list inside a list", "a=(b (c))"],
  ["an open list", "a=(b"],
  ["an open string", 'a="b'],
  ["an escape of another character", String.raw`a="\n"`],
  ["a character outside ASCII", 'a="é"'],
  ["bytes without their padding", "a=:aGk:"],
  ["bytes with unused bits that are set", "a=:aGl=:"],
])("a dictionary with %s is malformed", (_what, text) => {
  expect(() => parseDictionary(text, "x")).toThrow(expect.objectContaining(MALFORMED));
});

test.each([
  ["an open string", `a="${"b".repeat(LONG)}`],
  ["an open string of escapes", `a="${"\\\\".repeat(LONG)}`],
  ["open bytes", `a=:${"b".repeat(LONG)}`],
  ["open lists", `a=${"(".repeat(LONG)}`],
  ["a list of spaces", `a=(${" ".repeat(LONG)}`],
  ["digits", `a=${"1".repeat(LONG)}`],
  ["semicolons", `a=b${";".repeat(LONG)}`],
  ["spaces before the end", `a=b${" ".repeat(LONG)}"`],
  ["10,000 items and no end", `a=(${'"b" '.repeat(10_000)}`],
])("%s is refused in time proportional to its length", (_what, text) => {
  const begun = process.cpuUsage();
  expect(() => parseDictionary(text, "x")).toThrow(expect.objectContaining(MALFORMED));
  expect(process.cpuUsage(begun).user / 1000).toBeLessThan(3000);
});
