import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { usePostern } from "../fixtures/postern.ts";
import { useRedis } from "../fixtures/redis.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: redis.url } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
}));
const PROGRAM = join(root, "dist/services/cli/main.js");

/** Returns the files that a Node process with these arguments loads. For a bundle, returns its sources. */
function loadedBy(args: readonly string[], exitCode = 0, env: NodeJS.ProcessEnv = {}): string[] {
  const dir = tempDir();
  const hook = join(dir, "hook.mjs");
  const preload = join(dir, "preload.mjs");
  const report = join(dir, "loaded"); // not stderr: a full pipe would truncate a report at the exit
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
  const run = spawnSync(process.execPath, ["--import", preload, ...args], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  if (run.status !== exitCode) throw new Error(run.stderr);
  const files = readFileSync(report, "utf8").trim().split("\n");
  return files.flatMap((file) => (file.startsWith("file:") ? sourcesOf(fileURLToPath(file)) : []));
}

function packagesLoadedBy(args: readonly string[], exitCode = 0, env: NodeJS.ProcessEnv = {}): string[] {
  const names = loadedBy(args, exitCode, env).flatMap(
    (path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [],
  );
  return [...new Set(names)].sort();
}

/** Returns the sources of a bundle by its source map. Any other file is its own source. */
function sourcesOf(file: string): string[] {
  if (!existsSync(`${file}.map`)) return [file];
  const { sources } = JSON.parse(readFileSync(`${file}.map`, "utf8")) as { sources: string[] };
  return sources.map((source) => resolve(dirname(file), source));
}

function packagesLoadedByImporting(module: string): string[] {
  const program = `
    const loaded = await import(${JSON.stringify(module)});
    if (Object.keys(loaded).length === 0) throw new Error("exports nothing");
    process.exit(0);`;
  return packagesLoadedBy(["--input-type=module", "-e", program]);
}

const { dependencies, devDependencies } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
) as Record<"dependencies" | "devDependencies", Record<string, string>>;
const direct = { ...dependencies, ...devDependencies };
const documented = readFileSync(join(root, "docs/library.md"), "utf8");
const parts = [...documented.matchAll(/^\| `(postern\/[a-z0-9]+)` \| (`.+`) \|$/gm)].map(
  ([, part = "", packages = ""]) => ({ part, packages: namesIn(packages) }),
);
const [, ofProcesses = "", ofRunner = ""] =
  /^Each process also loads ([^.]+)\. The process\s`postern runner` also loads ([^.]+)\.$/m.exec(
    documented,
  ) ?? [];
const processes = parts.map(({ part, packages }) => {
  const service = part.replace("postern/", "");
  const also = [...namesIn(ofProcesses), ...(service === "runner" ? namesIn(ofRunner) : [])];
  return { part: `postern ${service}`, packages: [...new Set([...packages, ...also])].sort() };
});
const rows = [...parts, ...processes];

function namesIn(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
}

/** Creates a wrong configuration. Every service reads it at its start and exits. */
function wrongConfig(): string {
  const dir = tempDir();
  writeFileSync(join(dir, "postern.toml"), "nope = 1\n");
  return dir;
}

const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner"];

test("docs/library.md states for every part which packages it loads", () => {
  expect(parts.map(({ part }) => part)).toEqual(SERVICES.map((name) => `postern/${name}`));
  expect([ofProcesses, ofRunner]).not.toContain("");
});

test.each(rows)(
  "$part loads the packages that docs/library.md states, and no optional one such as viem or OpenTelemetry's",
  ({ part, packages: said }) => {
    const [, service = ""] = part.split(" ");
    const loaded =
      service === ""
        ? packagesLoadedByImporting(part)
        : packagesLoadedBy([PROGRAM, service, "--config-dir", wrongConfig()], EXIT.config);
    expect(loaded.filter((name) => direct[name] !== undefined)).toEqual(said);
    expect(
      loaded.filter((name) =>
        /^(viem|ox|@x402\/(evm|extensions|fetch)|@opentelemetry\/(?!api$).+)$/.test(name),
      ),
    ).toEqual([]);
  },
);

test("the program loads only commander to read its command line", () => {
  expect(packagesLoadedBy([PROGRAM, "--help"])).toEqual(["commander"]);
});

test.each(["config check", "status", "failed list"])(
  "postern %s loads neither Express nor undici, and of BullMQ neither worker, flow nor the main index",
  (command) => {
    const loaded = loadedBy([PROGRAM, ...command.split(" "), "--config-dir", postern.configDir]);
    expect(loaded.filter((path) => path.includes("/services/cli/"))).not.toEqual([]);
    const unwanted =
      /\/node_modules\/(express|undici|bullmq\/dist\/esm\/(classes\/)?(index|worker|queue|flow-producer)\.js$)/;
    expect(loaded.filter((path) => unwanted.test(path))).toEqual([]);
  },
);

test("a service loads OpenTelemetry's packages if an OTLP endpoint is set", () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
  const args = [PROGRAM, "webhooks", "--config-dir", wrongConfig()];
  expect(packagesLoadedBy(args, EXIT.config, env)).toContain("@opentelemetry/sdk-trace-base");
});

test("postern webhooks starts without viem and without the packages of x402 and OpenTelemetry", async () => {
  const dir = tempDir();
  const preload = join(dir, "preload.mjs");
  writeFileSync(
    join(dir, "hook.mjs"),
    `export async function resolve(name, context, next) {
      if (/^(viem|ox|@x402\\/|@opentelemetry\\/(?!api))/.test(name)) throw new Error(name + " is not installed");
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
