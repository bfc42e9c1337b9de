// Writes two files about third-party packages: their licences, and a list of them (bill of materials). It is plain
// JavaScript because it runs before anything is built.
import { mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

const LICENCE_FILE = /^(licen[cs]e|copying)/i;
/** Matches a package's NOTICE file. The Apache licence requires that it is distributed together with the package. */
const NOTICE_FILE = /^notice/i;

/**
 * Writes the licences of the bundled packages to `dist/THIRD-PARTY-NOTICES.txt`. Writes a list of all packages that are
 * bundled, or that npm installs with Postern, to `dist/sbom.cdx.json`. `modules` are the paths of all modules in the
 * bundles. Throws if the lockfile names no licence of a package, or if a bundled package has no file with its text.
 *
 * `npm sbom` is not used, because it would list every development package. It also fails if the peer dependencies of a
 * package do not match.
 */
export function writeThirdParty(root, modules) {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const home = realpathSync(join(root, "node_modules"));
  const bundled = new Set(modules.flatMap((id) => lockPathOf(home, id) ?? []));
  const problems = [];
  const notices = [...bundled].sort().map((path) => {
    const folder = join(dirname(home), path);
    const licences = textsIn(folder, LICENCE_FILE);
    if (licences.length === 0) problems.push(`${path} has no file with the text of its licence`);
    return noticeOf(path, packages[path], [...licences, ...textsIn(folder, NOTICE_FILE)]);
  });
  const listed = Object.keys(packages).filter(
    (path) => bundled.has(path) || isInstalled(path, packages[path]),
  );
  for (const path of new Set([...bundled, ...listed]))
    if (!packages[path]?.license) problems.push(`package-lock.json has no licence for ${path}`);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  mkdirSync(join(root, "dist"), { recursive: true });
  writeFileSync(join(root, "dist/THIRD-PARTY-NOTICES.txt"), [INTRODUCTION, ...notices].join(`\n${RULE}\n\n`));
  writeFileSync(
    join(root, "dist/sbom.cdx.json"),
    `${JSON.stringify(sbom(packages, listed, bundled), null, 2)}\n`,
  );
}

/**
 * Returns the path under which the lockfile lists the package of a module. Returns undefined if the module is a source
 * of this project, or was made by the bundler.
 */
function lockPathOf(home, id) {
  const [, folder] = /^([^?\0]*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)/.exec(id) ?? [];
  if (folder === undefined) return undefined;
  const path = relative(dirname(home), folder).split(sep).join("/");
  if (!path.startsWith("node_modules/"))
    throw new Error(`${id} is bundled, but is not a package of this project`);
  return path;
}

function textsIn(folder, pattern) {
  return readdirSync(folder)
    .filter((name) => pattern.test(name))
    .sort()
    .map((name) => readFileSync(join(folder, name), "utf8").trim())
    .filter((text) => text !== "");
}

/** Returns whether npm installs this package with Postern. Peer dependencies do not count: the user's project installs them. */
function isInstalled(path, { dev, devOptional, link, peer }) {
  return path.startsWith("node_modules/") && !dev && !devOptional && !link && !peer;
}

const RULE = "-".repeat(80);
const INTRODUCTION = `The files of this folder contain parts of the packages below, whose licences follow.
Packages that npm installs beside this one have their licences in their own folders.
`;

function noticeOf(path, entry = {}, texts) {
  return `${refOf(path, entry)} (${entry.license})\n\n${texts.join("\n\n")}\n`;
}

/**
 * Returns the list of packages as a bill of materials in the format CycloneDX 1.6. Its optional time and serial number
 * are left out, so that the same sources always give the same file.
 */
function sbom(packages, listed, bundled) {
  const own = packages[""];
  const ownRef = `${own.name}@${own.version}`;
  const needsOf = (path) => {
    const { dependencies, optionalDependencies, devDependencies } = packages[path];
    return Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies }).flatMap((name) => {
      const target = resolvedFrom(packages, path, name);
      return listed.includes(target) ? [refOf(target, packages[target])] : [];
    });
  };
  /** Paths in the lockfile by package and version. npm may install the same version at several paths. */
  const placesOf = new Map();
  for (const path of listed) {
    const ref = refOf(path, packages[path]);
    placesOf.set(ref, [...(placesOf.get(ref) ?? []), path]);
  }
  const components = [...placesOf].map(([ref, paths]) => ({
    type: "library",
    "bom-ref": ref,
    ...identity(nameOf(paths[0], packages[paths[0]]), packages[paths[0]]),
    hashes: hashesOf(packages[paths[0]].integrity),
    properties: [{ name: "postern:bundled", value: String(paths.some((path) => bundled.has(path))) }],
  }));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      lifecycles: [{ phase: "build" }],
      component: { type: "application", "bom-ref": ownRef, ...identity(own.name, own) },
    },
    components,
    dependencies: [[ownRef, [""]], ...placesOf].map(([ref, paths]) => ({
      ref,
      dependsOn: [...new Set(paths.flatMap(needsOf))].sort(),
    })),
  };
}

/** Returns the path of the package that Node loads if a module of the package at `path` imports `name`. */
function resolvedFrom(packages, path, name) {
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    if (packages[`${at}/node_modules/${name}`] !== undefined) return `${at}/node_modules/${name}`;
  }
  return `node_modules/${name}`;
}

/** Returns the package's name. It is the name of its folder, unless the lockfile's entry has another. */
const nameOf = (path, { name }) => name ?? path.replace(/^.*node_modules\//, "");
const refOf = (path, entry) => `${nameOf(path, entry)}@${entry.version}`;

function identity(name, { version, license }) {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  return { name, version, licenses: [{ expression: license }], purl };
}

const ALGORITHMS = { sha1: "SHA-1", sha256: "SHA-256", sha384: "SHA-384", sha512: "SHA-512" };

/** Converts the lockfile's hashes of a package's tarball to CycloneDX's form. */
function hashesOf(integrity) {
  return integrity.split(" ").map((each) => {
    const [, algorithm, digest] = /^([a-z0-9]+)-(.+)$/.exec(each);
    return { alg: ALGORITHMS[algorithm], content: Buffer.from(digest, "base64").toString("hex") };
  });
}
