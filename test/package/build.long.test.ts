import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { makeConsumer } from "../support/consumer.ts";

/*
 * Tests the bundled program, as the package contains it.
 */

let project: string;
let built: string;
/** JavaScript files for Node in the build directory. */
let files: string[];

beforeAll(() => {
  project = makeConsumer();
  built = join(project, "node_modules/postern/dist/services");
  const all = readdirSync(built, { recursive: true }) as string[];
  files = all.filter((file) => file.endsWith(".js") && !file.startsWith("console-page/"));
});

function run(program: string, ...nodeArgs: string[]) {
  writeFileSync(join(project, "program.js"), program);
  return spawnSync(process.execPath, [...nodeArgs, "program.js"], { cwd: project, encoding: "utf8" });
}

test("a program that uses all parts has only one AppError class, no matter which part throws it", () => {
  const { stdout, stderr } = run(`
    import { createWebhooksGateway } from "postern/webhooks";
    import { createX402Gateway } from "postern/x402";
    import { createProducer } from "postern/producer";
    import { createRunner } from "postern/runner";
    import { createPricingService } from "postern/pricing";
    const makers = [createWebhooksGateway, createX402Gateway, createProducer, createRunner, createPricingService];
    const thrown = await Promise.all(makers.map((make) =>
      new Promise((resolve) => resolve(make({ nope: 1 }))).catch((error) => error)));
    console.log(JSON.stringify({
      codes: thrown.map(({ code }) => code),
      classes: new Set(thrown.map((error) => error.constructor)).size,
    }));`);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({ codes: Array(5).fill("start.config_invalid"), classes: 1 });
});

test("no module is in two files of the build, so a program that uses several parts also shares connections", () => {
  const places = new Map<string, string[]>();
  for (const file of files.filter((each) => existsSync(join(built, `${each}.map`)))) {
    const { sources } = JSON.parse(readFileSync(join(built, `${file}.map`), "utf8")) as { sources: string[] };
    for (const source of new Set(sources)) {
      const path = resolve(dirname(join(built, file)), source);
      places.set(path, [...(places.get(path) ?? []), file]);
    }
  }
  expect(places.size).toBeGreaterThan(500);
  expect([...places].filter(([, within]) => within.length > 1)).toEqual([]);
});

test("a stack trace always names the function, and with --enable-source-maps the source and line", () => {
  const program = `
    import { createWebhooksGateway } from "postern/webhooks";
    try { createWebhooksGateway({ nope: 1 }); } catch ({ stack }) { console.log(stack); }`;
  const source = join(project, "node_modules/postern/shared/part/options.ts");
  expect(run(program, "--enable-source-maps").stdout).toMatch(
    new RegExp(`at openPart \\(${source}:\\d+:\\d+\\)`),
  );
  expect(run(program).stdout).toMatch(/at openPart \(.*\/dist\/services\/chunks\/.*\.js:\d+:\d+\)/);
});

/** Files that run when they are imported. */
const PROGRAMS = ["cli/main.js", "health/main.js", "pricing/main-with-x402.js"];
/** Packages that users install only for certain commands (start.package_missing). */
const OPTIONAL =
  /^Cannot find package '(viem|@x402\/(evm|extensions|fetch)|@opentelemetry\/(exporter|resources|sdk)[a-z-]*)'/;

test("an install of the package includes everything that the build imports, except optional peers", () => {
  const modules = files.filter((file) => !PROGRAMS.includes(file)).map((file) => join(built, file));
  const { stdout, stderr } = run(`
    const problems = [];
    for (const file of ${JSON.stringify(modules)}) await import(file).catch(({ message }) => problems.push([file, message]));
    console.log(JSON.stringify(problems));
    process.exit(0);`);
  expect(stderr).toBe("");
  const problems = JSON.parse(stdout) as [string, string][];
  expect(problems.filter(([, message]) => !OPTIONAL.test(message))).toEqual([]);
});

test("a service with an OTLP endpoint reports the missing packages that send traces", () => {
  const { status, stdout } = spawnSync(process.execPath, [join(built, "cli/main.js"), "producer"], {
    cwd: project,
    encoding: "utf8",
    env: { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" },
  });
  const failed = stdout.split("\n").find((line) => line.includes("service.failed"));
  expect([status, JSON.parse(failed ?? "{}")]).toMatchObject([
    EXIT.config,
    {
      code: "start.package_missing",
      reason: expect.stringMatching(
        /^OTEL_EXPORTER_OTLP_ENDPOINT needs packages .*\n {2}npm install '@opentelemetry\/exporter-trace-otlp-proto@/,
      ),
    },
  ]);
});

test("the health check is a single file", () => {
  expect(readFileSync(join(built, "health/main.js"), "utf8")).not.toMatch(/^import /m);
});
