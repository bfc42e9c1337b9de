import { execFileSync } from "node:child_process";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import type { PosternProcess } from "../../../shared/dev/process.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { withoutAnvil } from "../../support/without-anvil.ts";
import { apart, readyOf, startDev } from "./use-dev.ts";

const postern = usePostern();
const FILE = ".postern/dev-secrets.toml";

let cwd: string;
beforeEach(() => {
  cwd = tempDir();
});

async function start(): Promise<PosternProcess> {
  const { dist, env } = withoutAnvil();
  return startDev(postern, ["--runner", "http://127.0.0.1:1", ...(await apart())], {
    cwd,
    env,
    entry: [join(dist, "services/cli/main.js")],
  });
}

/** Starts dev and returns its secrets. */
async function readSecretsOfStart(): Promise<unknown> {
  const dev = await start();
  const { endpoints, ownRunner } = await readyOf(dev);
  await dev.kill("SIGTERM");
  const headers = endpoints.map(({ curl }) => /-H '(?!Content-Type)([^']*)'/.exec(curl)?.[1]);
  return [...headers, ownRunner?.secret];
}

test("the secrets that dev generates are the same at the next start in the same folder, and different in others", async () => {
  const first = await readSecretsOfStart();
  expect(await readSecretsOfStart()).toEqual(first);
  cwd = tempDir();
  expect(await readSecretsOfStart()).not.toEqual(first);
});

test("only its owner may read the file of dev's secrets, and git ignores it", async () => {
  execFileSync("git", ["init", "--quiet"], { cwd });
  await readyOf(await start());
  expect(statSync(join(cwd, FILE)).mode & 0o777).toBe(0o600);
  expect(execFileSync("git", ["status", "--porcelain"], { cwd, encoding: "utf8" })).toBe("");
});

test("dev that cannot store its secrets says so, and runs", async () => {
  writeFileSync(join(cwd, ".postern"), "no folder");
  const dev = await start();
  const { ownRunner } = await readyOf(dev);
  expect(ownRunner?.secret).toMatch(/^[0-9a-f]{64}$/);
  expect(dev.events("dev.secrets_not_saved")[0]?.["reason"]).toContain(
    "the next start generates new secrets",
  );
});

test("dev with a file of secrets that it did not write exits with 3 and says to delete it", async () => {
  mkdirSync(join(cwd, ".postern"));
  writeFileSync(join(cwd, FILE), 'runner = "short"\n');
  const dev = await start();
  expect((await dev.exit).code).toBe(3);
  const reason = dev.events("service.failed").at(-1)?.["reason"];
  expect(reason).toContain(
    `${FILE}: runner, bearer, hmac, apiKey, quote, pricing: must be 64 hex digits; delete the file`,
  );
});

test("dev without a terminal writes only JSON lines to stdout, and to stderr the commands for people", async () => {
  const args = ["dev", "--runner", "http://127.0.0.1:1", ...(await apart())];
  const { code, stdout, stderr } = await postern.run(args, {
    cwd,
    interruptAt: /Press Ctrl-C to stop everything/,
  });
  expect(code).toBe(0);
  const lines = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const ready = lines.find(({ event }) => event === "dev.ready") as { endpoints: { curl: string }[] };
  expect(ready.endpoints).toHaveLength(4);
  for (const { curl } of ready.endpoints) expect(stderr).toContain(`    ${curl}\n`);
});
