import { expect, test } from "vitest";
import { problemDetail } from "../../../../shared/platform/text/problem-detail.ts";

const PROBLEM = { type: "urn:x", title: "Bad amount", status: 422, detail: 'it says "ten"', more: 1 };
const TEXT = JSON.stringify(PROBLEM);

test.each([
  ["a problem document", `422 ${TEXT}`, '422 it says "ten"'],
  ["a document truncated after its detail", `422 ${TEXT.slice(0, -8)}`, '422 it says "ten"'],
  [
    "a document truncated within its detail",
    `422 ${TEXT.slice(0, TEXT.indexOf("ten") + 1)}`,
    '422 it says "t',
  ],
  ["a document truncated within an escape", '422 {"detail":"a\\u00', "422 a"],
  ["a document without a detail", '404 {"title":"No such job","status":404}', "404 No such job"],
  ["a document with an empty detail", '404 {"title":"No such job","detail":""}', "404 No such job"],
  ["a document without detail and title", '500 {"error":true}', '500 {"error":true}'],
  ["a list", "500 [1]", "500 [1]"],
  ["a text", "the runner did not answer in 5 s", "the runner did not answer in 5 s"],
])("of %s the list of failed calls shows what it says", (_what, reason, shown) => {
  expect(problemDetail(reason)).toBe(shown);
});
