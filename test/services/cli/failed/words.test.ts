import { expect, test } from "vitest";
import { bodyText } from "../../../../services/cli/body.ts";
import { createProgressBar } from "../../../../services/cli/failed/progress.ts";
import { shellLine } from "../../../../shared/platform/text/shell-quote.ts";

test("a long body is printed cut, and says by how much, unless all of it is asked for", () => {
  const text = Buffer.from("a".repeat(5000));
  expect(bodyText(text, { full: false })).toMatch(/^a{4096}\n… and 904 more characters/);
  expect(bodyText(text, { full: true })).toBe(`${text}\n`);
  const bytes = Buffer.alloc(600, 0xff);
  expect(bodyText(bytes, { full: false })).toMatch(/^(f{64}\n){16}… and 88 more bytes/);
  expect(bodyText(bytes, { full: true }).replaceAll("\n", "")).toBe("ff".repeat(600));
});

test("a body is printed as hex if a carriage return in it would overwrite its line", () => {
  expect(bodyText(Buffer.from("good\rbad"), { full: false })).toBe(
    `${Buffer.from("good\rbad").toString("hex")}\n`,
  );
  expect(bodyText(Buffer.from("a\r\nb\r\n"), { full: false })).toBe("a\r\nb\r\n");
});

test("a body is printed as hex if it would be shown in another order than it has", () => {
  const body = Buffer.from("paid \u202e00001");
  expect(bodyText(body, { full: false })).toBe(`${body.toString("hex")}\n`);
  expect(bodyText(Buffer.from("שלום\u200f!"), { full: false })).toBe("שלום\u200f!\n");
});

test("the words of a command that is printed for a shell survive the shell", () => {
  expect(shellLine(["--reason", "it's; $HOME", "a/b"])).toBe("--reason 'it'\\''s; $HOME' a/b");
});

test("the progress bar is drawn over itself, ends full and leaves the line empty", () => {
  let now = 0;
  const drawn: string[] = [];
  const bar = createProgressBar(
    (line) => void drawn.push(line),
    () => now,
  );
  now = 1000;
  bar.update({ done: 50, left: 0, total: 100 });
  bar.update({ done: 51, left: 0, total: 100 });
  bar.update({ done: 98, left: 2, total: 100 });
  bar.end();
  expect(drawn).toEqual([
    `[${"#".repeat(15)}${".".repeat(15)}] 50 % 50/100 50/s`,
    `[${"#".repeat(30)}] 100 % 100/100 100/s`,
    "",
  ]);
});
