import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { isAlive } from "../../support/is-alive.ts";

test("a child ends with the process that spawned it", async () => {
  const spawnChild = new URL("../../../shared/dev/child.ts", import.meta.url).href;
  const script = `
    const { spawnChild } = await import(${JSON.stringify(spawnChild)});
    const args = ["-e", ${JSON.stringify("setInterval(() => {}, 1000);")}];
    console.log(spawnChild({ command: process.execPath, args, env: process.env }).pid);
    process.exit(0);`;
  const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script]);
  const [printed] = await once(parent.stdout, "data");
  const pid = Number(String(printed));
  await eventually(`process ${pid} has ended`, () => !isAlive(pid));
});
