import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { blocksOf, readDocument } from "./blocks.ts";

const blocks = blocksOf("docs/systemd.md").filter(({ language }) => language === "systemd");
const unit = blocks.map(({ text }) => text).join("");
const setting = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";

test("systemd accepts the unit of docs/systemd.md without a remark", needs("systemd-analyze"), () => {
  const file = join(tempDir(), "postern@webhooks.service");
  writeFileSync(file, unit.replace("/usr/bin/node", process.execPath).replace(/^Documentation=.*\n/m, ""));
  const { stderr, status } = spawnSync(pathOf("systemd-analyze"), ["verify", file], { encoding: "utf8" });
  expect([stderr, status]).toEqual(["", 0]);
});

test("the unit of docs/systemd.md gives a process longer to stop than any process takes with the defaults", () => {
  const table = readDocument("docs/operations.md").split("## Stopping")[1] ?? "";
  const seconds = [...table.matchAll(/^\| [^|]+ \| [^|]+ \| (\d+) s \|$/gm)].map(([, secs]) => Number(secs));
  expect(seconds.length).toBeGreaterThan(0);
  expect(Number(setting("TimeoutStopSec"))).toBeGreaterThan(Math.max(...seconds));
});

test("the unit of docs/systemd.md is hardened, starts the program as a process of its own user, and lets it stop in order", () => {
  const hard = ["DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"];
  expect(hard.map(setting)).toEqual(hard.map(() => "yes"));
  expect([setting("ProtectSystem"), setting("CapabilityBoundingSet")]).toEqual(["strict", ""]);
  expect([setting("KillSignal"), setting("EnvironmentFile")]).toEqual(["SIGTERM", "-/etc/postern/%i.env"]);
  expect(setting("ExecStart")).toMatch(/\/dist\/services\/cli\/main\.js %i --config-dir \/etc\/postern$/);
});
