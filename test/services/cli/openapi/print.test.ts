import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere } from "../run-here.ts";

const SECRET = "a secret of these tests, long enough";

function configured(): string {
  const dir = tempDir();
  const endpoint = `[[endpoints]]\npath = "/hooks/github"\njob_id = 1\npreset = "github"\nsecret = "${SECRET}"\n`;
  writeFileSync(join(dir, "webhooks.toml"), endpoint);
  return dir;
}

const printed = async (...words: string[]) => JSON.parse((await runHere(["openapi", ...words])).stdout);

test("postern openapi prints the document of each service; that of the webhooks gateway has each endpoint without its secret", async () => {
  const dir = configured();
  const { stdout, code } = await runHere(["openapi", "webhooks", "--config-dir", dir]);
  expect(code).toBe(0);
  expect(Object.keys(JSON.parse(stdout).paths)).toContain("/hooks/github");
  expect(stdout).not.toContain(SECRET);
  expect(Object.keys((await printed("pricing")).paths)).toEqual([
    "/pricing/jobs/{service_id}/{job_index}/quote",
  ]);
  expect((await printed("console", "-o", "json")).info.title).toBe("Postern console");
});

test("postern openapi x402 without x402.toml exits with 3", async () => {
  const ran = await runHere(["openapi", "x402", "--config-dir", configured()]);
  expect([ran.code, ran.stdout]).toEqual([3, ""]);
  expect(ran.stderr).toContain("x402.toml: file not found");
});
