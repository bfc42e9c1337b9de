import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { makeConsumer } from "../support/consumer.ts";
import { tempDir } from "../support/temp-dir.ts";

/*
 * Tests the licences and the bill of materials of the package. The tests find bundled packages by source maps; the
 * build finds them by modules.
 */

const root = fileURLToPath(new URL("../..", import.meta.url));

type Locked = { version: string; license: string; dev?: boolean; devOptional?: boolean; link?: boolean };
type Component = {
  "bom-ref": string;
  purl: string;
  licenses: { expression: string }[];
  hashes: { alg: string; content: string }[];
  properties: { name: string; value: string }[];
};
type Sbom = {
  metadata: { component: { "bom-ref": string } };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

const locked = (
  JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Record<string, Locked> }
).packages;

/** Paths of the bundled packages in the lockfile. */
let bundled: string[];
let notices: string;
let sbom: Sbom;

beforeAll(() => {
  const dist = join(makeConsumer(), "node_modules/postern/dist");
  bundled = [...new Set([...packagesInBundles(join(dist, "services")), ...packagesOfThePage()])].sort();
  notices = readFileSync(join(dist, "THIRD-PARTY-NOTICES.txt"), "utf8");
  sbom = JSON.parse(readFileSync(join(dist, "sbom.cdx.json"), "utf8")) as Sbom;
});

function packagesInBundles(services: string): string[] {
  const maps = (readdirSync(services, { recursive: true }) as string[]).filter((file) =>
    file.endsWith(".map"),
  );
  return maps.flatMap((file) => {
    const { sources } = JSON.parse(readFileSync(join(services, file), "utf8")) as { sources: string[] };
    const folder = dirname(join(services, file));
    const home = resolve(services, "../..");
    return sources.flatMap((source) => packageOf(relative(home, resolve(folder, source))) ?? []);
  });
}

function packageOf(path: string): string | undefined {
  return /^node_modules\/(?:.+\/node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

/** Returns the packages in the console page, which has no source maps. */
function packagesOfThePage(): string[] {
  const page = join(root, "services/console-page");
  const sources = (readdirSync(page, { recursive: true }) as string[]).filter((file) => /\.tsx?$/.test(file));
  return sources.flatMap((file) =>
    [...readFileSync(join(page, file), "utf8").matchAll(/ from "([^.@][^"/]*)/g)].map(
      ([, name]) => `node_modules/${name}`,
    ),
  );
}

const nameOf = (path: string) => path.replace(/^.*node_modules\//, "");
const refOf = (path: string) => `${nameOf(path)}@${locked[path]?.version}`;

test("the notices contain the licence text of each bundled package, including BullMQ", () => {
  expect(bundled).toEqual(
    expect.arrayContaining(["bullmq", "preact", "uplot", "undici"].map((name) => `node_modules/${name}`)),
  );
  const sections = notices.split(/^-{80}\n\n/m);
  const missing = bundled.filter((path) => {
    const section = sections.find((text) => text.startsWith(`${refOf(path)} (${locked[path]?.license})\n`));
    const [file = ""] = readdirSync(join(root, path)).filter((name) => /^(licen[cs]e|copying)/i.test(name));
    return !section?.includes(readFileSync(join(root, path, file), "utf8").trim());
  });
  expect(missing).toEqual([]);
});

test("the bill of materials lists exactly the packages that are bundled or that an install adds", () => {
  const installed = Object.entries(locked).flatMap(([path, { dev, devOptional, link }]) =>
    path.startsWith("node_modules/") && !dev && !devOptional && !link ? [path] : [],
  );
  const refs = sbom.components.map((component) => component["bom-ref"]);
  expect(new Set(refs).size).toBe(refs.length);
  expect(refs.sort()).toEqual([...new Set([...bundled, ...installed].map(refOf))].sort());
  const listed = sbom.components.filter(({ properties }) => properties[0]?.value === "true");
  expect(listed.map((component) => component["bom-ref"]).sort()).toEqual(
    [...new Set(bundled.map(refOf))].sort(),
  );
});

test("the bill of materials gives each package a URL, a licence, the hash of its tarball, and its dependencies", () => {
  const { packages } = JSON.parse(readFileSync(join(root, "node_modules/.package-lock.json"), "utf8")) as {
    packages: Record<string, { integrity?: string }>;
  };
  const express = sbom.components.find((component) => component["bom-ref"].startsWith("express@"));
  const sha512 = Buffer.from(
    String(packages["node_modules/express"]?.integrity).slice("sha512-".length),
    "base64",
  );
  expect(express?.hashes).toEqual([{ alg: "SHA-512", content: sha512.toString("hex") }]);
  expect(sbom.components.map(({ purl }) => purl)).toEqual(
    expect.arrayContaining([
      `pkg:npm/%40x402/core@${locked["node_modules/@x402/core"]?.version}`,
      `pkg:npm/bullmq@${locked["node_modules/bullmq"]?.version}`,
    ]),
  );
  expect(sbom.components.filter(({ licenses }) => !licenses[0]?.expression)).toEqual([]);
  const own = sbom.metadata.component["bom-ref"];
  const refs = new Set([own, ...sbom.components.map((component) => component["bom-ref"])]);
  expect(new Set(sbom.dependencies.map(({ ref }) => ref))).toEqual(refs);
  expect(sbom.dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !refs.has(ref))).toEqual([]);
  const needsOf = (ref: string) => sbom.dependencies.find((each) => each.ref === ref)?.dependsOn;
  expect(needsOf(own)).toContain(refOf("node_modules/bullmq"));
  // proxy-addr needs an older version, which is installed beside it.
  expect(needsOf(refOf("node_modules/proxy-addr"))).toContain(
    refOf("node_modules/proxy-addr/node_modules/ipaddr.js"),
  );
});

type WriteThirdParty = (root: string, modules: string[]) => void;

/** Creates a project with one package, a module of which is bundled. */
function project({ license, text }: { license?: string; text?: string }) {
  const dir = tempDir();
  const folder = join(dir, "node_modules/@scope/dep");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "NOTICE"), "Made by somebody.");
  if (text !== undefined) writeFileSync(join(folder, "LICENSE.md"), text);
  const dep = { version: "1.2.3", dev: true, integrity: "sha512-AAAA", license };
  const packages = { "": { name: "own", version: "1.0.0", license: "MIT" }, "node_modules/@scope/dep": dep };
  writeFileSync(join(dir, "package-lock.json"), JSON.stringify({ packages }));
  return { dir, modules: [join(dir, "src/own.ts"), "\0virtual", join(folder, "lib/index.js")] };
}

test("a build fails if a bundled package has no licence text, an empty one, or no licence in the lockfile", async () => {
  const module = new URL("../../services/dev/third-party.mjs", import.meta.url).href;
  const { writeThirdParty } = (await import(module)) as { writeThirdParty: WriteThirdParty };
  const write = ({ dir, modules }: ReturnType<typeof project>) => writeThirdParty(dir, modules);
  for (const text of [undefined, " \n"]) {
    const without = project({ license: "MIT", ...(text !== undefined && { text }) });
    expect(() => write(without)).toThrow("node_modules/@scope/dep has no file with the text of its licence");
    expect(existsSync(join(without.dir, "dist"))).toBe(false);
  }
  expect(() => write(project({ text: "Do what you want." }))).toThrow(
    "package-lock.json has no licence for node_modules/@scope/dep",
  );
  const whole = project({ license: "MIT", text: "Do what you want." });
  write(whole);
  expect(readFileSync(join(whole.dir, "dist/THIRD-PARTY-NOTICES.txt"), "utf8")).toMatch(
    /@scope\/dep@1\.2\.3 \(MIT\)\n\nDo what you want\.\n\nMade by somebody\.\n$/,
  );
});
