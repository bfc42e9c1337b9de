// Prepares a fresh clone, then runs one of the project's programs. It is plain JavaScript because it runs before
// anything is installed.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isatty } from "node:tty";
import { fileURLToPath } from "node:url";
import { buildIfChanged } from "./build.mjs";
import { installNode, OTHER_NODES } from "./other-node.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const [target, ...args] = process.argv.slice(2);

const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `Postern needs Node.js 20.19 or newer, but this is ${process.version}. Install a newer Node.js and run this again.`,
  );
  process.exit(1);
}

/**
 * Runs a program, by default in the project's folder, with this terminal as its input and output. If the program
 * fails, this process ends with the same exit code or signal.
 */
function run(command, commandArgs, cwd = root) {
  const { status, signal, error } = spawnSync(command, commandArgs, { cwd, stdio: "inherit" });
  if (error) throw error;
  if (signal) process.kill(process.pid, signal);
  if (status !== 0) process.exit(status ?? 1);
}

/**
 * Runs the requested program and ends with its exit code. It forwards signals, so that a signal to this process also
 * ends the program. It does not forward Ctrl-C and a hang-up on a terminal, which sends them to the program itself.
 */
function runForwardingSignals(command, commandArgs, cwd) {
  const program = spawn(command, commandArgs, { cwd, stdio: "inherit" });
  const onTerminal = [0, 1, 2].some((fd) => isatty(fd));
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
    process.on(signal, () => {
      if (signal === "SIGTERM" || !onTerminal) program.kill(signal);
    });
  }
  program.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/**
 * Runs `npm ci`, unless the installed packages match the lockfile. It skips all install scripts: no package needs one,
 * and this project's own script would build the program, which this file does later.
 */
function installPackages() {
  if (isInstalled()) return;
  console.error("Installing packages (npm ci) ...");
  run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
}

/**
 * Compares the lockfile with the list of installed packages that npm wrote into node_modules. Optional packages may be
 * absent, because npm installs them only on machines that they support.
 */
function isInstalled() {
  const record = join(root, "node_modules/.package-lock.json");
  if (!existsSync(record)) return false;
  const [wanted, installed] = [join(root, "package-lock.json"), record].map(packagesIn);
  return Object.entries(wanted).every(([path, { integrity, optional }]) => {
    if (path === "") return true;
    return installed[path] === undefined ? optional === true : installed[path].integrity === integrity;
  });
}

function packagesIn(lockfile) {
  return JSON.parse(readFileSync(lockfile, "utf8")).packages;
}

/**
 * Runs `npm test` on the other releases of Node (other-node.mjs), and then the long tests on this one. If arguments name
 * some tests, only these run, and only on this release.
 */
function testLong() {
  const isAll = args.length === 0;
  if (isAll) for (const release of Object.keys(OTHER_NODES)) testOn(release);
  run("npm", ["run", "--silent", "check:long", "--", ...(isAll ? longerTests() : args)]);
}

/**
 * Returns the test files that have long tests: those named so, and those that use test/support/long-run.ts. `npm test`
 * runs all tests of the others.
 */
function longerTests() {
  const files = readdirSync(join(root, "test"), { recursive: true }).map((file) => join("test", file));
  const marksLongTests = (file) => readFileSync(join(root, file), "utf8").includes(`long-run.ts"`);
  return files.filter(
    (file) => file.endsWith(".long.test.ts") || (file.endsWith(".test.ts") && marksLongTests(file)),
  );
}

/**
 * Runs `npm test` on a release of Node. If npm cannot install the release, the output ends with a note that its tests
 * were skipped. With CI=true the run fails instead.
 */
function testOn(release) {
  if (release === String(major)) return;
  if (installNode(release, process.env) !== undefined) {
    console.error(`\nnpm test on Node.js ${release} ...`);
    run(process.execPath, [join(root, "services/dev/with-node.mjs"), release, "npm", "test"]);
    return;
  }
  if (process.env.CI === "true") {
    console.error(`Node.js ${release} is not installed, and with CI=true no test may be skipped.`);
    process.exit(1);
  }
  const command = `env -u POSTERN_NO_INSTALL npm run test:node -- ${release} npm test`;
  process.on("exit", () =>
    console.error(`Skipped: npm test on Node.js ${release}, which is not installed. To run it: ${command}`),
  );
}

/**
 * Returns the folder where the user called npm, so that relative paths on the command line work. A script of
 * npm runs in the package's folder, and finds the user's folder in INIT_CWD.
 */
function userFolder() {
  const { npm_lifecycle_event: script, INIT_CWD: called } = process.env;
  return script !== undefined && called !== undefined && process.cwd() === root ? called : process.cwd();
}

const node = (script) =>
  runForwardingSignals(process.execPath, ["--enable-source-maps", join(root, script), ...args], userFolder());
const targets = {
  postern: () => node("dist/services/cli/main.js"),
  demo: () => node("dist/services/dev/demo/main.js"),
  bench: () => run("node", ["--import", "./services/dev/from-source.mjs", "bench/main.ts", ...args]),
  check: () => run("npm", ["run", "--silent", "check"]),
  long: testLong,
};

if (!Object.hasOwn(targets, target ?? "")) {
  console.error(`usage: node services/dev/bootstrap.mjs ${Object.keys(targets).join(" | ")}`);
  process.exit(2);
}
installPackages();
buildIfChanged(root, (step) => run("node", step));
targets[target]();
