import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { usePostern } from "../fixtures/postern.ts";
import { useRedis } from "../fixtures/redis.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: redis.url } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
}));
const built = (file: string): string => join(root, "dist", file);

/** The packages that a Node process with these arguments loads, seen by a hook on Node's own resolution. */
function packagesLoadedBy(...args: string[]): string[] {
  const dir = tempDir();
  const hook = join(dir, "hook.mjs");
  const preload = join(dir, "preload.mjs");
  const report = 'writeSync(2, "loaded " + url + "\\n");';
  writeFileSync(
    hook,
    `import { writeSync } from "node:fs";\nexport async function load(url, context, next) { ${report} return next(url, context); }\n`,
  );
  writeFileSync(
    preload,
    `import Module, { register } from "node:module";
    import { pathToFileURL } from "node:url";
    register(pathToFileURL(${JSON.stringify(hook)}));
    process.on("exit", () => {
      for (const file of Object.keys(Module._cache)) console.error("loaded file://" + file);
    });`,
  );
  const run = spawnSync(process.execPath, ["--import", preload, ...args], { cwd: root, encoding: "utf8" });
  if (run.status !== 0) throw new Error(run.stderr);
  const names = [...run.stderr.matchAll(/^loaded file:.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/gm)].map(
    (match) => match[1]!,
  );
  return [...new Set(names)].sort();
}

function packagesLoadedByImporting(module: string): string[] {
  const program = `
    const loaded = await import(${JSON.stringify(module)});
    if (Object.keys(loaded).length === 0) throw new Error("exports nothing");
    process.exit(0);`;
  return packagesLoadedBy("--input-type=module", "-e", program);
}

const heavy = [
  "express",
  "bullmq",
  "ioredis",
  "viem",
  "undici",
  "commander",
  "pino",
  "prom-client",
  "smol-toml",
  "zod",
  "secp256k1",
  "@grpc/grpc-js",
  "grpc-health-check",
  "@x402/core",
  "@x402/evm",
  "@x402/extensions",
];

test.each([
  ["postern/webhooks", ["express", "bullmq", "ioredis", "zod"]],
  ["postern/x402", ["@x402/core", "bullmq", "express", "ioredis", "secp256k1", "undici", "zod"]],
  ["postern/pricing", ["@grpc/grpc-js", "grpc-health-check", "ioredis", "secp256k1", "undici", "zod"]],
  ["postern/producer", ["bullmq", "ioredis", "undici", "zod"]],
  ["postern/runner", ["ioredis", "zod"]],
])("importing %s loads only what it needs", (subpath, needed) => {
  const loaded = packagesLoadedByImporting(subpath);
  expect(loaded.filter((name) => heavy.includes(name))).toEqual([...needed].sort());
});

test("the program loads no viem to read its command line", () => {
  const loaded = packagesLoadedBy(built("services/cli/main.js"), "--help");
  expect(loaded).toContain("commander");
  expect(loaded).not.toContain("viem");
});

test.each(["webhooks-gateway", "producer", "runner"])("the process of the %s loads no viem", (service) => {
  const loaded = packagesLoadedByImporting(built(`services/${service}/main.js`));
  expect(loaded).toContain("ioredis");
  expect(loaded).not.toContain("viem");
});

test("postern webhooks starts where neither viem nor any x402 package is installed", async () => {
  const dir = tempDir();
  const preload = join(dir, "preload.mjs");
  writeFileSync(
    join(dir, "hook.mjs"),
    `export async function resolve(name, context, next) {
      if (/^(viem|ox|@x402\\/)/.test(name)) throw new Error(name + " is not installed");
      return next(name, context);
    }\n`,
  );
  writeFileSync(
    preload,
    `import { register } from "node:module";\nregister(new URL("hook.mjs", import.meta.url));\n`,
  );
  const anywhere = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const started = postern.start(["webhooks", ...anywhere], { env: { NODE_OPTIONS: `--import ${preload}` } });
  expect(await started.waitForEvent("service.started")).toMatchObject({ service: "webhooks" });
});
