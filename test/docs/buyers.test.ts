import { expect, test } from "vitest";
import { BUYERS } from "./buyers.ts";

test("docs/payments.md shows a buyer in TypeScript, Python, Go and Rust, each with its install commands, POST, a body and a purchase's name", () => {
  expect(BUYERS.map(({ program }) => program.language)).toEqual(["ts", "python", "go", "rust"]);
  for (const { install, program } of BUYERS) {
    expect(install.text).toMatch(/^(?:npm install|pip install|go get|cargo add) /);
    expect(program.text).toMatch(/post/i);
    expect(program.text).toContain("hello");
    expect(program.text).toMatch(/[aA]ppend_?[pP]ayment_?[iI]dentifier|Idempotency-Key/);
  }
});
