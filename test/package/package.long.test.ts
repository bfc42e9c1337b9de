import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { beforeAll, expect, test } from "vitest";
import { bytesOf } from "../support/bytes-of.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const CEILING = { packages: 75, megabytes: 40 };

type Locked = { dev?: boolean; devOptional?: boolean; link?: boolean };

let packed: string;
let tarball: Uint8Array<ArrayBuffer>;

beforeAll(() => {
  const dir = tempDir();
  const { status, stderr } = spawnSync("npm", ["pack", root, "--ignore-scripts", "--silent"], {
    cwd: dir,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  packed = join(dir, String(readdirSync(dir).find((name) => name.endsWith(".tgz"))));
  tarball = new Uint8Array(readFileSync(packed));
});

test("the package contains the program, its documents and examples, the licences, the bill of materials, the README and the changelog, and nothing else", () => {
  const files = spawnSync("tar", ["-tzf", packed], { encoding: "utf8" }).stdout.trim().split("\n");
  const names = files.map((file) => file.replace(/^package\//, ""));
  expect(names).toEqual(
    expect.arrayContaining([
      ...["CHANGELOG.md", "LICENSE", "README.md", "package.json"],
      ...["dist/THIRD-PARTY-NOTICES.txt", "dist/sbom.cdx.json", "dist/services/cli/main.js"],
    ]),
  );
  const allowed =
    /^(LICENSE|(CHANGELOG|README)\.md|package\.json|docs\/operations\/.+(Caddyfile|\.(cfg|conf|json|service|toml|txt|yaml|yml))|docs\/.+\.(md|png|svg)|config\/(example|schema)\/.+|dist\/(services|types)\/.+|dist\/(THIRD-PARTY-NOTICES\.txt|sbom\.cdx\.json))$/;
  expect(names.filter((name) => !allowed.test(name))).toEqual([]);
  expect(names.filter((name) => /\/demo\/|\/\.|\.env|\.test\./.test(name))).toEqual([]);
});

test("publint finds no problem in the package", async () => {
  const { messages, pkg } = await publint({ pack: { tarball: tarball.buffer }, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg ?? {}))).toEqual([]);
});

test("attw resolves the types of every entry of the package for a project of ES modules", async () => {
  const analysis = await checkPackage(createPackageFromTarballData(tarball));
  if (analysis.types === false) throw new Error("the package has no types");
  expect(Object.keys(analysis.entrypoints)).toContain("./webhooks");
  const elsewhere = ["node10", "node16-cjs"];
  const problems = analysis.problems.filter(
    (problem) => !("resolutionKind" in problem && elsewhere.includes(problem.resolutionKind)),
  );
  expect(problems).toEqual([]);
});

test("an install of the package adds at most the packages and megabytes that the documents state, and no blockchain package", () => {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>;
  };
  const brought = Object.entries(packages).flatMap(([path, { dev, devOptional, link }]) =>
    path.startsWith("node_modules/") && !dev && !devOptional && !link && isThere(path) ? [path] : [],
  );
  const megabytes =
    brought.reduce((sum, path) => sum + bytesOf(join(root, path), { without: "node_modules" }), 0) / 1e6;
  expect(
    brought.filter((path) =>
      /\/(viem|ox|solc|@x402\/evm|@opentelemetry\/sdk-trace-base|@foundry-rs)(\/|$)/.test(path),
    ),
  ).toEqual([]);
  expect(brought.length).toBeGreaterThan(CEILING.packages / 2);
  expect(brought.length).toBeLessThanOrEqual(CEILING.packages);
  expect(megabytes).toBeLessThanOrEqual(CEILING.megabytes);
  const said = `${CEILING.packages} packages and ${CEILING.megabytes} MB`;
  expect(readFileSync(join(root, "docs/install.md"), "utf8")).toContain(said);
});

test("an install from git builds the program, adds no development packages, and runs", {
  timeout: 400_000,
}, () => {
  const dir = tempDir();
  writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module" }));
  const npm = ["install", `git+file://${root}`, "--prefer-offline", "--no-audit", "--no-fund"];
  const installed = spawnSync("npm", npm, { cwd: dir, encoding: "utf8" });
  expect(installed.status, installed.stderr).toBe(0);
  const home = join(dir, "node_modules/postern");
  expect(readdirSync(home).sort()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "config",
    "dist",
    "docs",
    "package.json",
  ]);
  const program = join(dir, "node_modules/.bin/postern");
  expect(spawnSync(program, ["--version"], { encoding: "utf8" }).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  for (const name of ["typescript", "viem", "@opentelemetry", "@foundry-rs"])
    expect(existsSync(join(dir, "node_modules", name)), name).toBe(false);
});

function isThere(path: string): boolean {
  return statSync(join(root, path), { throwIfNoEntry: false }) !== undefined;
}
