import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
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
  const report = join(dir, "loaded"); // not stderr: a full pipe would cut off what is reported as the process exits
  const tell = (text: string) => `appendFileSync(${JSON.stringify(report)}, ${text} + "\\n");`;
  writeFileSync(
    hook,
    `import { appendFileSync } from "node:fs";
    export async function load(url, context, next) { ${tell("url")} return next(url, context); }`,
  );
  writeFileSync(
    preload,
    `import { appendFileSync } from "node:fs";
    import Module, { register } from "node:module";
    import { pathToFileURL } from "node:url";
    register(pathToFileURL(${JSON.stringify(hook)}));
    process.on("exit", () => {
      for (const file of Object.keys(Module._cache)) ${tell('"file://" + file')}
    });`,
  );
  const run = spawnSync(process.execPath, ["--import", preload, ...args], { cwd: root, encoding: "utf8" });
  if (run.status !== 0) throw new Error(run.stderr);
  const names = [
    ...readFileSync(report, "utf8").matchAll(/^file:.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/gm),
  ].map((match) => match[1]!);
  return [...new Set(names)].sort();
}

function packagesLoadedByImporting(module: string): string[] {
  const program = `
    const loaded = await import(${JSON.stringify(module)});
    if (Object.keys(loaded).length === 0) throw new Error("exports nothing");
    process.exit(0);`;
  return packagesLoadedBy("--input-type=module", "-e", program);
}

const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  dependencies: Record<string, string>;
};
const documented = readFileSync(join(root, "docs/library.md"), "utf8");
const rows = [...documented.matchAll(/^\| `(postern[/ ][a-z0-9]+)` \| (`.+`) \|$/gm)].map(
  ([, part = "", packages = ""]) => ({ part, packages: packages.replaceAll("`", "").split(", ") }),
);

/** What each row of the table in docs/library.md loads. */
const MODULES: Readonly<Record<string, string>> = {
  "postern/webhooks": "postern/webhooks",
  "postern/x402": "postern/x402",
  "postern/pricing": "postern/pricing",
  "postern/producer": "postern/producer",
  "postern/runner": "postern/runner",
  "postern webhooks": built("services/webhooks-gateway/main.js"),
  "postern x402": built("services/x402-gateway/main.js"),
  "postern pricing": built("services/pricing/main.js"),
  "postern producer": built("services/producer/main.js"),
  "postern runner": built("services/runner/main.js"),
};

test("docs/library.md says of every part what it loads", () => {
  expect(rows.map(({ part }) => part)).toEqual(Object.keys(MODULES));
});

test.each(Object.entries(MODULES))(
  "%s loads the packages that docs/library.md says, and no viem",
  (part, module) => {
    const loaded = packagesLoadedByImporting(module);
    const said = rows.find((row) => row.part === part)?.packages;
    expect(loaded.filter((name) => dependencies[name] !== undefined)).toEqual(said);
    expect(loaded.filter((name) => /^(viem|ox|@x402\/(evm|extensions|fetch))$/.test(name))).toEqual([]);
  },
);

test("the program loads no viem to read its command line", () => {
  const loaded = packagesLoadedBy(built("services/cli/main.js"), "--help");
  expect(loaded).toContain("commander");
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
