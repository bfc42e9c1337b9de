import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { spawnChild, waitUntilAnswers } from "../../../shared/dev/child.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { isAlive } from "../../support/is-alive.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const FOREVER = "setInterval(() => {}, 1000);";

/** A process that has started a child, and the child's pid. */
async function parentOf(options: object) {
  const module = new URL("../../../shared/dev/child.ts", import.meta.url).href;
  const script = `
    const { spawnChild } = await import(${JSON.stringify(module)});
    const child = spawnChild({ command: process.execPath, env: process.env, ...${JSON.stringify(options)} });
    console.log(child.pid);
    process.stdin.once("data", () => process.exit(0));`;
  const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script]);
  const [printed] = await once(parent.stdout, "data");
  return { parent, pid: Number(String(printed)) };
}

test.each(sample(["exits", "is killed with SIGKILL"]))(
  "a child ends with the process that spawned it, if that %s, even if the child is detached",
  async (how) => {
    const { parent, pid } = await parentOf({ args: ["-e", FOREVER], detached: true });
    expect(isAlive(pid)).toBe(true);
    if (how === "exits") parent.stdin.write("exit");
    else parent.kill("SIGKILL");
    await eventually(`process ${pid} has ended`, () => !isAlive(pid), 10_000);
  },
);

const ONCE = `
  let terms = 0;
  process.on("SIGTERM", () => {
    terms += 1;
    setTimeout(() => console.log("SIGTERM", terms), 200).unref();
    setTimeout(() => process.exit(), 400);
  });
  console.log("up");`;

onlyInLongRun(() => {
  test("a child with children of its own to end gets its last signal once", async () => {
    const dir = tempDir();
    const logFile = join(dir, "log");
    const { parent, pid } = await parentOf({ args: ["-e", ONCE + FOREVER], lastSignal: "SIGTERM", logFile });
    await eventually("it is up", () => readFileSync(logFile, "utf8").includes("up"));
    parent.stdin.write("exit");
    await eventually(`process ${pid} has ended`, () => !isAlive(pid), 10_000);
    expect(readFileSync(logFile, "utf8")).toBe("up\nSIGTERM 1\n");
  });
});

test("a child's pid, exit code, signal and last lines are the program's own", async () => {
  const run = (code: string) =>
    spawnChild({ command: process.execPath, args: ["-e", code], env: process.env });
  const ended = run("console.log(process.pid); console.error('broken'); process.exitCode = 7;");
  expect(await ended.exit).toEqual({ code: 7, signal: null });
  expect(ended.tail().split("\n").sort()).toEqual([String(ended.pid), "broken"].sort());
  const killed = run(FOREVER);
  expect(await killed.kill("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
});

test("a program that is not there is a start that failed, and the failure names it", async () => {
  const child = spawnChild({ command: "/nowhere/program", args: [], env: process.env });
  await expect(waitUntilAnswers("it", child, async () => false)).rejects.toThrow(
    /it did not start: it exited immediately\n.*\/nowhere\/program/,
  );
});
