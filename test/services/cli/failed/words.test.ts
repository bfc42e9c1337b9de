import { expect, test } from "vitest";
import { bodyText } from "../../../../services/cli/body.ts";
import { createProgressBar, createProgressLines } from "../../../../services/cli/failed/progress.ts";
import { shellLine } from "../../../../shared/platform/text/shell-quote.ts";

test("a long body is cut with a note that says how much is missing, unless all of it is requested", () => {
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

test("a body is printed as hex if a terminal would show it in another order", () => {
  const body = Buffer.from("paid \u202e00001");
  expect(bodyText(body, { full: false })).toBe(`${body.toString("hex")}\n`);
  expect(bodyText(Buffer.from("שלום\u200f!"), { full: false })).toBe("שלום\u200f!\n");
});

test("a printed command keeps its words when it is pasted into a shell", () => {
  expect(shellLine(["--reason", "it's; $HOME", "a/b"])).toBe("--reason 'it'\\''s; $HOME' a/b");
});

test("the progress bar redraws its line, ends full and then erases it", () => {
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

test("in a pipe, a long bulk operation prints a line for each tenth, and a short one prints none", () => {
  const told: string[] = [];
  const lines = () =>
    createProgressLines(
      (text) => void told.push(text),
      (done, total) => `replayed ${done} of ${total} calls`,
    );
  const [long, short] = [lines(), lines()];
  for (const [done, left] of [
    [3, 0],
    [12, 0],
    [13, 0],
    [70, 2],
    [117, 3],
  ] as const)
    long.update({ done, left, total: 120 });
  short.update({ done: 50, left: 0, total: 99 });
  expect(told).toEqual(["replayed 12 of 120 calls (10 %)\n", "replayed 70 of 120 calls (60 %)\n"]);
});
