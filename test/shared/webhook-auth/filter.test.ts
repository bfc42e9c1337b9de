import { expect, test } from "vitest";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { compileFilter, filterProblem } from "../../../shared/webhook-auth/filter/filter.ts";
import { sample } from "../../support/long-run.ts";

type Request = { body?: string | Buffer; headers?: readonly string[] };

const HEADERS = ["X-GitHub-Event", "issues", "X-Try", "12", "Via", "1.1 a", "via", "1.1 b"];
const BODY = JSON.stringify({
  action: "opened",
  n: 1,
  price: "12.50",
  half: 0.5,
  none: null,
  yes: true,
  label: { name: "bug" },
  labels: [{ name: "bug" }, { name: "ui", hidden: true }],
  ids: [1, 2, "3"],
  "a-b": 1,
  text: "Zürich 😀",
});

/** Returns the result, or the reason of the failure. */
function result(when: string, { body = BODY, headers = HEADERS }: Request = {}): boolean | string {
  const filter = compileFilter(when);
  try {
    return filter({ rawHeaders: [...headers] }, Buffer.from(body));
  } catch (error) {
    expect(error).toMatchObject({ code: "webhook.filter_failed" });
    return messageOf(error).replace(/^when: /, "");
  }
}

test.each([
  'body.action in ["opened", "reopened"] && header["x-github-event"] == "issues"',
  'header["via"] == "1.1 a, 1.1 b"',
  '!("x-absent" in header) && "via" in header',
  "body.n == 1 && body.n == 1.0 && body.n in [1, 2] && body.n < 2 && body.n >= 0.5 && -body.n == -1",
  "body.half < 1 && body.half != 1",
  'body.n != "1" && body.none == null && body.none != false',
  'body["a-b"] == 1 && body.ids[2] == "3" && body.ids == [1.0, 2.0, 3.0] == false',
  "has(body.label.name) && !has(body.label.color)",
  'body.labels.exists(l, l.name == "bug") && !body.labels.all(l, l.name == "bug")',
  'body.labels.exists(l, l.hidden) && size(body.labels.filter(l, l.name == "ui")) == 1',
  'body.labels.exists(a, body.labels.exists(b, a != b)) && body.label.exists(name, name == "name")',
  'body.label in body.labels && "name" in body.label',
  'body.action.startsWith("open") && body.action.endsWith("ned") && body.action.contains("pen") && body.action.contains("")',
  '!body.action.contains("opem") && body.text.contains("ich 😀") && "AÄ".lowerAscii() == "aÄ"',
  'size(body.text) == 8 && body.text.size() == 8 && size(body) > 5 && body.action < "p"',
  'int(header["x-try"]) == 12 && double(body.price) > 12.0 && int(body.half) == 0',
  "body.yes ? body.n == 1 : body.absent",
  "body.absent || true",
  "!(body.absent && false)",
])("a request is for an endpoint if the expression is true: %s", (when) => {
  expect(result(when)).toBe(true);
  expect(result(`!(${when})`)).toBe(false);
});

test.each([
  ["body.absent == 1", "body.absent is missing"],
  ["has(body.absent.name)", "body.absent is missing"],
  ["has(body.none.name)", "body.none has a value of the wrong type"],
  ["body.none.name == 1", "body.none.name is missing"],
  ["body.ids[3] == 1", "body.ids[3] is missing"],
  ['header["x-absent"] == "a"', 'header["x-absent"] is missing'],
  ["body.constructor == 1", "body.constructor is missing"],
  ["has(body.toString) || body.n", "body.n is not true or false"],
  ["body.action", "the expression is not true or false for this request"],
  ["body.action < 1", "body.action < 1 has a value of the wrong type"],
  ["body.n in body.n", "body.n in body.n has a value of the wrong type"],
  ["body.n.exists(x, x == 1)", "body.n.exists(x, x == 1) has a value of the wrong type"],
  ["body.labels.exists(l, l.hidden == false)", "l.hidden is missing"],
  ["body.labels.filter(l, l.hidden) == []", "l.hidden is missing"],
  ['int(header["via"]) == 1', 'int(header["via"]) has a value of the wrong type'],
  ["body.n.contains(body.n)", "body.n.contains(body.n) has a value of the wrong type"],
])("an expression without a result fails, and the error names the part: %s", (when, reason) => {
  expect(result(when)).toBe(reason);
});

test.each([
  ["no JSON", "a=1", "the body is not JSON"],
  ["empty", "", "the body is not JSON"],
  ["too deep", `${"[".repeat(65)}${"]".repeat(65)}`, "the body is nested more than 64 levels deep"],
  ["of too many values", `[${"1,".repeat(100_000)}1]`, "the body has more than 100000 values"],
  ["with too long a number", `[${"1".repeat(101)}]`, "the body has a number of more than 100 digits"],
])("a body that is %s fails only a filter that reads it", (_what, body, reason) => {
  expect(result("size(body) == 0", { body })).toBe(reason);
  expect(result('"via" in header', { body })).toBe(true);
});

test.each([
  "body.id == 9007199254740993 && body.id != 9007199254740992 && body.id > 9007199254740992.0",
  "body.id in [9007199254740993] && !(body.id in [9007199254740992])",
  "body.far == -123456789012345678901234567890 && body.far < body.id",
  'body.text == "9007199254740993" && body.text != body.id && body.ids == [body.id, body.far]',
])("whole numbers are compared exactly beyond the precision of a double: %s", (when) => {
  const body =
    '{"id":9007199254740993,"far":-123456789012345678901234567890,"text":"9007199254740993","ids":[9007199254740993,-123456789012345678901234567890]}';
  expect(result(when, { body })).toBe(true);
});

test("a body has only its own member names, and the last of equal names counts", () => {
  const body = '{"__proto__":{"a":1},"constructor":"Map","a":1,"a":2}';
  expect(result('body["__proto__"].a == 1 && body.constructor == "Map" && body.a == 2', { body })).toBe(true);
  expect(result("has(body.toString)", { body })).toBe(false);
});

test.each([
  ["body.action ==", "is not a valid expression: Unexpected token: EOF (at character 15)"],
  ["bdy.action == 1", "is not a valid expression: Unknown variable: bdy (at character 1)"],
  ['header["a"] == 1', "is not a valid expression: no such overload: string == int (at character 1)"],
  ["body.a = 1", "is not a valid expression: Unexpected character: = (at character 8)"],
  ["1", "must be true or false, not a value of type int"],
  ['body.a.matches("^(a+)+$")', "must not use the function matches"],
  ["body.a + body.a == body.b", "must not use the operator +"],
  ["cel.bind(x, body.a, x == x)", "must not use the function bind"],
  ["size(body.a.map(x, [x, x])) > 1", "must not use the function map"],
  ['body == {"a": 1}', "must not use the operator map"],
  ["type(body.a) == int", "must not use the function type"],
  ["body.a == int", "must not use int as a value"],
  ["body.a == 1u", "must not contain bytes or unsigned numbers: body.a == 1u"],
  ["body.a.constructor()", expect.stringContaining("constructor")],
  [`${"(".repeat(300)}true${")".repeat(300)}`, expect.stringContaining("Exceeded maxDepth")],
])("an expression that cannot be used is refused when it is read: %s", (when, problem) => {
  expect(filterProblem(when)).toEqual(problem);
});

const many = (count: number, each = "1"): string => `[${`${each},`.repeat(count - 1)}${each}]`;
const MIB = 1024 * 1024;
const spent = "the expression takes more than 100000 steps for this request";

/** Expressions and bodies for which an evaluation without limits would use seconds or gigabytes. */
const costly: [what: string, when: string, body: string, reason: string | boolean][] = [
  ["a loop in a loop", "body.all(a, body.all(b, a == b))", many(5000), spent],
  ["a list in a list", "body.all(a, a in body)", `[${Array.from({ length: 5000 }, (_, i) => i)}]`, spent],
  [
    "an equality in a loop",
    "body.a.all(x, body.b == body.c)",
    `{"a":${many(9000)},"b":${many(9000)},"c":${many(9000)}}`,
    spent,
  ],
  ["errors in a loop", "body.exists(a, a.b == 1)", many(8000), spent],
  ["errors in a loop, with an alternative", "body.exists(a, a.b == 1) || true", many(99_000), spent],
  [
    "a search in a loop",
    "body.a.exists(x, body.b.contains(x))",
    `{"a":${many(9000, '"z"')},"b":"${"a".repeat(MIB)}"}`,
    spent,
  ],
  [
    "a loop over names in a loop",
    "body.a.all(x, body.b.exists(n, true))",
    JSON.stringify({
      a: Array(20_000).fill(1),
      b: Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [i, 1])),
    }),
    spent,
  ],
  [
    "a periodic text in another",
    "body.b.contains(body.a)",
    `{"a":"${"a".repeat(99_999)}b${"a".repeat(99_999)}","b":"${"a".repeat(MIB)}"}`,
    false,
  ],
  [
    "letters in lower case",
    "body.a.lowerAscii() == body.a.lowerAscii()",
    `{"a":"${"Aa".repeat(MIB / 2)}"}`,
    spent,
  ],
  ["long expressions", Array(200).fill("true").join("&&"), "{}", true],
  ["many negations", `${"!".repeat(1020)}true`, "{}", true],
];
test.each(sample(costly, 3))("%s is evaluated in bounded time", (_what, when, body, reason) => {
  const request = { body };
  result(when, request);
  const begun = process.cpuUsage();
  expect(result(when, request)).toBe(reason);
  // Each evaluation takes less than 0.1 s. Without its limit it takes more than 10 s.
  expect(process.cpuUsage(begun).user / 1000).toBeLessThan(3000);
});
