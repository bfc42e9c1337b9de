import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OTHER_NODES } from "../../services/dev/other-node.mjs";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useEnds } from "../fixtures/ends.ts";
import { useRedis } from "../fixtures/redis.ts";
import { bytesOf } from "../support/bytes-of.ts";
import { send } from "../support/http.ts";
import { needs } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { followDockerfile, type Image, instructions } from "./dockerfile.ts";

/*
 * Tests the image as its Dockerfile makes it, without Docker. Its processes run as a non-root user in a directory that
 * is not writable. If the test runs as a non-root user, the processes run as that user.
 */
const root = fileURLToPath(new URL("../..", import.meta.url));
const redis = useRedis();
const ends = useEnds();
const isRoot = process.getuid?.() === 0;
const NOBODY = isRoot ? { uid: 65534, gid: 65534 } : {};
const MAKING_MS = 400_000;

let image: Image;

beforeAll(() => {
  image = followDockerfile();
  change("a-w,a+rX");
}, MAKING_MS);
afterAll(() => change("u+w"));

function change(mode: string): void {
  spawnSync("chmod", ["-R", mode, image.files]);
}

/** Runs a command of the image as `docker run` would. */
function run(words: readonly string[], env: Record<string, string> = {}) {
  const [command = "", ...args] = words;
  expect(command).toBe("node");
  return spawnSync(process.execPath, args, {
    ...NOBODY,
    cwd: image.workdir,
    env: { ...image.env, ...env },
    encoding: "utf8",
  });
}

function configDir(): string {
  const dir = tempDir();
  chmodSync(dir, 0o755);
  writeConfig(dir, {
    postern: { redis: { url: redis.url }, runner: { secret: "a secret of producer and runner" } },
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  });
  for (const name of readdirSync(dir)) chmodSync(join(dir, name), 0o644);
  return dir;
}

type Started = { address: string; opsAddress: string };

/** Starts a service of the image on free ports. Resolves with its event `service.started`. */
async function start(service: string, ...options: string[]) {
  const [command = "", ...args] = [...image.entrypoint, service, "--config-dir", configDir(), ...options];
  expect(command).toBe("node");
  const child = spawn(process.execPath, args, {
    ...NOBODY,
    cwd: image.workdir,
    env: { ...image.env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  ends.defer(() => child.kill("SIGKILL"));
  const exit = once(child, "exit");
  const gone = exit.then((): never => {
    throw new Error(`${service} ended`);
  });
  gone.catch(() => {});
  const lines = createInterface(child.stdout);
  const started = new Promise<Started>((resolve) => {
    lines.on("line", (line) => {
      if (line.includes('"service.started"')) resolve(JSON.parse(line) as Started);
    });
  });
  return { child, exit, ...(await Promise.race([started, gone])) };
}

const READY = { path: "/readyz", method: "GET" };
const ANYWHERE = ["--ops-address", "127.0.0.1:0"];

test("the image's program prints the version of package.json", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  expect(run([...image.entrypoint, "--version"])).toMatchObject({ status: 0, stdout: `${version}\n` });
});

test("the image's webhooks gateway accepts a call as a non-root user in a read-only directory, and exits with 0 on SIGTERM", async () => {
  const writes = run(["node", "-e", "fs.writeFileSync('package.json', '')"]);
  expect(writes.stderr).toContain("EACCES");
  const { child, exit, address } = await start("webhooks", "--bind-address", "127.0.0.1:0", ...ANYWHERE);
  await eventually("it is ready", async () => (await send(address, READY)).status === 200);
  expect((await send(address, { path: "/a", body: "hello" })).status).toBe(202);
  child.kill("SIGTERM");
  expect(await exit).toEqual([0, null]);
});

test("the image's health check succeeds while the process at POSTERN_LIVEZ runs, and fails once it is gone", async () => {
  const { child, exit, opsAddress } = await start("producer", ...ANYWHERE);
  const place = { POSTERN_LIVEZ: `http://${opsAddress}/livez` };
  expect(run(image.healthcheck, place).status).toBe(0);
  child.kill("SIGTERM");
  await exit;
  expect(run(image.healthcheck, place).status).toBe(1);
});

test("the image's health check queries each process at its default address", () => {
  const asked = readFileSync(join(image.workdir, String(image.healthcheck[1])), "utf8");
  const ports = ["webhooks", "producer", "x402", "pricing", "runner"].map((service) => {
    const help = run([...image.entrypoint, service, "--help"]).stdout.replaceAll(/\s+/g, " ");
    return `${service}: ${/--ops-address .*?127\.0\.0\.1:(\d+)/.exec(help)?.[1]}`;
  });
  for (const port of ports) expect(asked).toContain(port);
});

test("the image contains only the files of the package and its dependencies, with the licences of the bundled packages", () => {
  expect(readdirSync(image.workdir).sort()).toEqual(
    ["CHANGELOG.md", "LICENSE", "README.md", "config", "dist", "docs", "node_modules", "package.json"].sort(),
  );
  expect(readdirSync(join(image.workdir, "dist")).sort()).toEqual(
    ["THIRD-PARTY-NOTICES.txt", "sbom.cdx.json", "services", "types"].sort(),
  );
  expect(readdirSync(join(image.workdir, "dist/services"))).not.toContain("demo");
});

test("the image has no development packages, and its pay and devnet name the packages to install", () => {
  const modules = readdirSync(join(image.workdir, "node_modules"));
  expect(modules).toContain("ioredis");
  for (const name of ["typescript", "vitest", "rolldown", "bullmq", "viem", "ox", "solc", "postern-anvil"])
    expect(modules).not.toContain(name);
  const key = { POSTERN_PAYER_KEY: "1".repeat(64) };
  const pay = run([...image.entrypoint, "pay", "http://127.0.0.1:9/x402/jobs/0/1"], key);
  expect([pay.status, pay.stderr]).toEqual([3, expect.stringContaining("npm install '@x402/evm@")]);
  const devnet = run([...image.entrypoint, "devnet"]);
  expect([devnet.status, devnet.stdout]).toEqual([3, expect.stringContaining('"start.package_missing"')]);
});

test("the image uses a Node version that the tests run on, pinned by digest, starts node itself as the first process, and does not run as root", () => {
  const bases = instructions().flatMap(({ word, rest }) => (word === "FROM" ? [rest.split(" ")[0]] : []));
  const pinned = bases.map((base) => /^node:([\d.]+)-(\w+)(?:-slim)?@sha256:[\da-f]{64}$/.exec(base ?? ""));
  expect(new Set(pinned.map((base) => base?.slice(1).join("-"))).size).toBe(1);
  expect(Object.values(OTHER_NODES)).toContain(pinned[0]?.[1]);
  expect(image.entrypoint[0]).toBe("node");
  expect(image.user).toBe("node");
});

test("the documents state the size of the image's own files", () => {
  const megabytes = ["dist", "node_modules"].map((name) => bytesOf(join(image.workdir, name)) / 1e6);
  const [, dist, modules] =
    /`dist` has at most (\d+) MB and `node_modules` (\d+) MB/.exec(
      readFileSync(new URL("../../docs/install.md", import.meta.url), "utf8"),
    ) ?? [];
  expect(megabytes[0]).toBeLessThanOrEqual(Number(dist));
  expect(megabytes[1]).toBeLessThanOrEqual(Number(modules));
});

test("a builder builds the image, and its program prints its version", {
  timeout: MAKING_MS,
  ...needs("docker"),
}, () => {
  const built = spawnSync("docker", ["build", "--quiet", "."], { cwd: root, encoding: "utf8" });
  expect(built.stderr).toBe("");
  const limits = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true"];
  const ran = spawnSync("docker", ["run", "--rm", ...limits, built.stdout.trim(), "--version"], {
    encoding: "utf8",
  });
  expect(ran.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
