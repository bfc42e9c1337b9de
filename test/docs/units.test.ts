import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { runHere } from "../services/cli/run-here.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { blocksOf, readDocument } from "./blocks.ts";
import { operationsFile, scrapedTargets } from "./operations.ts";

const PAGE = "docs/operations/systemd/README.md";

const file = fileURLToPath(new URL("../../docs/operations/systemd/postern@.service", import.meta.url));
const unit = readFileSync(file, "utf8");
const setting = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";

test("systemd accepts the unit of docs/operations/systemd without a remark", needs("systemd-analyze"), () => {
  const copy = join(tempDir(), "postern@webhooks.service");
  writeFileSync(copy, unit.replace("/usr/bin/node", process.execPath).replace(/^Documentation=.*\n/m, ""));
  const { stderr, status } = spawnSync(pathOf("systemd-analyze"), ["verify", copy], { encoding: "utf8" });
  expect([stderr, status]).toEqual(["", 0]);
});

test("systemd finds almost no further restriction for the unit", needs("systemd-analyze"), () => {
  const args = ["security", "--offline=true", "--threshold=15", file];
  const { stdout, status } = spawnSync(pathOf("systemd-analyze"), args, { encoding: "utf8" });
  expect([status, stdout]).toEqual([0, expect.stringContaining("Overall exposure level")]);
});

test("the unit of docs/operations/systemd gives a process longer to stop than any process takes with the defaults", () => {
  const table = readDocument("docs/operations/stopping.md");
  const seconds = [...table.matchAll(/^\| [^|]+ \| [^|]+ \| (\d+) s \|$/gm)].map(([, secs]) => Number(secs));
  expect(seconds.length).toBeGreaterThan(0);
  expect(Number(setting("TimeoutStopSec"))).toBeGreaterThan(Math.max(...seconds));
});

test("the unit of docs/operations/systemd is hardened, starts the program as a process of its own user, and lets it reload and stop in order", () => {
  const hard = ["DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"];
  expect(hard.map(setting)).toEqual(hard.map(() => "yes"));
  expect([setting("ProtectSystem"), setting("CapabilityBoundingSet")]).toEqual(["strict", ""]);
  expect(setting("ExecReload")).toBe("/bin/kill -HUP $MAINPID");
  expect([setting("KillSignal"), setting("Group")]).toEqual(["SIGTERM", "postern"]);
});

/** Commands that change the system. The page's other commands run. */
const SYSTEM = ["chgrp", "curl", "groupadd", "ln", "npm", "systemctl"];

/** Types the commands of the page. The page's folders are below `dir`. */
function follow(dir: string) {
  for (const folder of ["redis", "systemd/system"]) mkdirSync(join(dir, "etc", folder), { recursive: true });
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const program = `"${process.execPath}" "${root}dist/services/cli/main.js"`;
  const commands = blocksOf(PAGE).map(({ text }) => text);
  const script = [
    ...SYSTEM.map((name) => `${name}() { echo "${name} $*"; }`),
    `postern() { case $1 in status) ;; *) ${program} "$@" ;; esac; }`,
    ...commands,
  ].join("\n");
  const moved = script
    .replaceAll("/opt/postern/node_modules/postern/", root)
    .replaceAll("/opt/postern-NEW/node_modules/.bin/", "")
    .replaceAll("/etc/", `${dir}/etc/`)
    .replace("postern init ", "postern init --yes --accept webhooks --preset github ")
    .replace("install -m 0640 -g postern", "echo a secret of 32 characters or more | install -m 0640");
  return spawnSync("bash", ["-euc", moved], { encoding: "utf8" });
}

onlyInLongRun(() => {
  test("the commands of docs/operations/systemd write a good configuration, and start units with addresses of their own", async () => {
    const dir = tempDir();
    const { stdout, stderr, status } = follow(dir);
    expect([status, stderr], stdout).toEqual([
      0,
      "warning: POSTERN_QUOTE_SECRET: this variable is not used\n",
    ]);
    expect(stdout).toContain("console: 1 token");
    expect(existsSync(join(dir, "etc/systemd/system/postern@.service"))).toBe(true);

    expect(setting("Environment")).toBe("COMMAND=%i OPTIONS=");
    expect(setting("EnvironmentFile")).toBe("-/etc/postern/%i.env");
    expect(setting("ExecStart")).toMatch(/\/main\.js \$COMMAND --config-dir \/etc\/postern \$OPTIONS$/);
    const [, enabled = ""] = /^systemctl enable --now (.*)$/m.exec(stdout) ?? [];
    const units = enabled.split(" ").map((name) => name.replace("postern@", ""));
    expect(units).toEqual(["webhooks", "webhooks-2", "producer", "producer-2", "operator"]);
    const ports = new Map<string, string>();
    for (const name of units) {
      const file = join(dir, `etc/postern/${name}.env`);
      const env = existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
      const { COMMAND: command = name, OPTIONS: options = "" } = env;
      const { stdout: help } = await runHere([command, "--help"]);
      for (const option of options.match(/--[\w-]+/g) ?? []) expect(help, name).toContain(option);
      const [, port = ""] = /--ops-address 127\.0\.0\.1:(\d+)/.exec(options) ?? portOf(command);
      ports.set(name, port);
    }
    expect(new Set(ports.values()).size).toBe(units.length);
    const restarted = [
      ...(/^ *for each in (.*?);/m.exec(readDocument(PAGE))?.[1] ?? "").matchAll(/(\S+):(\d+)/g),
    ];
    const kinds = ["producer", "producer-2", "webhooks", "webhooks-2", "operator"];
    expect(restarted.map(([, name, port]) => [name, port])).toEqual(
      kinds.map((name) => [name, ports.get(name)]),
    );
    for (const port of ports.values()) expect(scrapedTargets()).toContain(`127.0.0.1:${port}`);
  });
});

/** The default port of the private address. */
function portOf(command: string): RegExpExecArray | [] {
  return (
    new RegExp(`^\\| \`postern ${command}\`.*127\\.0\\.0\\.1:(\\d+)`, "m").exec(
      readDocument("docs/operations/processes.md"),
    ) ?? []
  );
}

test("the Redis of docs/operations/systemd keeps the promise of a 202, like the Redis of Kubernetes", () => {
  const lines = readFileSync(operationsFile("kubernetes/base/config/redis.conf"), "utf8").split("\n");
  const [, words = ""] =
    /^ *printf '%s\\n' (.*) >> \/etc\/redis\/redis\.conf$/m.exec(readDocument(PAGE)) ?? [];
  const set = [...words.matchAll(/'([^']*)'/g)].map(([, line]) => line);
  expect(set).toContain("appendfsync always");
  expect(lines).toEqual(expect.arrayContaining(set));
});
