import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { readDocument } from "./blocks.ts";

const file = fileURLToPath(new URL("../../docs/operations/systemd/postern@.service", import.meta.url));
const unit = readFileSync(file, "utf8");
const setting = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";

test("systemd accepts the unit of docs/operations/systemd without a remark", needs("systemd-analyze"), () => {
  const copy = join(tempDir(), "postern@webhooks.service");
  writeFileSync(copy, unit.replace("/usr/bin/node", process.execPath).replace(/^Documentation=.*\n/m, ""));
  const { stderr, status } = spawnSync(pathOf("systemd-analyze"), ["verify", copy], { encoding: "utf8" });
  expect([stderr, status]).toEqual(["", 0]);
});

test("systemd finds next to nothing that the unit could still restrict", needs("systemd-analyze"), () => {
  const args = ["security", "--offline=true", "--threshold=15", file];
  const { stdout, status } = spawnSync(pathOf("systemd-analyze"), args, { encoding: "utf8" });
  expect([status, stdout]).toEqual([0, expect.stringContaining("Overall exposure level")]);
});

test("the unit of docs/operations/systemd gives a process longer to stop than any process takes with the defaults", () => {
  const table = readDocument("docs/operations.md").split("## Stopping")[1] ?? "";
  const seconds = [...table.matchAll(/^\| [^|]+ \| [^|]+ \| (\d+) s \|$/gm)].map(([, secs]) => Number(secs));
  expect(seconds.length).toBeGreaterThan(0);
  expect(Number(setting("TimeoutStopSec"))).toBeGreaterThan(Math.max(...seconds));
});

test("the unit of docs/operations/systemd is hardened, starts the program as a process of its own user, and lets it reload and stop in order", () => {
  const hard = ["DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"];
  expect(hard.map(setting)).toEqual(hard.map(() => "yes"));
  expect([setting("ProtectSystem"), setting("CapabilityBoundingSet")]).toEqual(["strict", ""]);
  expect(setting("ExecReload")).toBe("/bin/kill -HUP $MAINPID");
  expect([setting("KillSignal"), setting("EnvironmentFile")]).toEqual(["SIGTERM", "-/etc/postern/%i.env"]);
  expect(setting("ExecStart")).toMatch(/\/dist\/services\/cli\/main\.js %i --config-dir \/etc\/postern$/);
});
