import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { OUTCOMES } from "../../services/producer/retry-policy.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";

const page = readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8");
const rows = [...page.matchAll(/^\| `([a-z_]+\.[a-z_]+)` \| (\d{3}|-) \| (yes|no) \| (.+?) \|$/gm)];

test("the table of docs/errors.md lists every code, with its status and whether a retry may succeed, and none that does not exist", () => {
  const documented = rows.map(([, code, status, retry]) => [code, status, retry]);
  const real = Object.entries(CODES).map(([code, entry]) => [
    code,
    /^(start|command)\./.test(code) ? "-" : String(entry.status),
    entry.retryable ? "yes" : "no",
  ]);
  expect(documented).toEqual(real);
});

test("the second table of docs/errors.md is what a producer does after each code, and has no other row", () => {
  const [, section = ""] = page.split("## What a producer does next\n");
  const documented = [...section.matchAll(/^\| (.+) \|$/gm)].map(([, row = ""]) => row.split(" | ")).slice(1);
  const real = Object.entries(OUTCOMES).map(([code, { next, effect, peer, pauses, wait }]) => [
    `\`${code}\``,
    ...[next, effect, peer, pauses, wait],
  ]);
  expect(documented).toEqual(real);
});

test("an error caused by the sender is not retryable, except with a status that HTTP defines as retryable", () => {
  for (const [code, { status, retryable }] of Object.entries(CODES)) {
    // A result that is still pending is 404 with Retry-After.
    if (status < 500 && code !== "result.pending")
      expect(retryable, code).toBe(
        [408, 409, 425, 429].includes(status) &&
          !/(conflict|used|elsewhere|too_late|too_old|not_failed|not_delayed|not_resumable|undecidable|not_shown|taken|unconfigured|ambiguous|call\.paid)$/.test(
            code,
          ),
      );
  }
});
