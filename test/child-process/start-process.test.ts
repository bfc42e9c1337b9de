import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { freePort } from "../../shared/dev/free-port.ts";
import { startProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { isAlive } from "../support/is-alive.ts";

/** A process that runs this script. */
function run(script: string, onLine?: (line: string) => void) {
  const entry = ["--input-type=module", "-e", script];
  return startProcess({ name: "sample", args: [], entry, env: process.env, ...(onLine && { onLine }) });
}

const LOG = `const log = (event, fields) => console.log(JSON.stringify({ event, ...fields }));`;
const FOREVER = `setInterval(() => {}, 1000);`;

test("an event is found whether it was logged before or after it was asked for", async () => {
  const sample = run(`${LOG} log("a", { n: 1 }); setTimeout(() => log("b", { n: 2 }), 50); ${FOREVER}`);
  expect(await sample.waitForEvent("b")).toMatchObject({ n: 2 });
  expect(await sample.waitForEvent("a")).toMatchObject({ n: 1 });
  expect(sample.events("a")).toHaveLength(1);
  expect(await sample.kill("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
});

test("of events of one name the condition picks", async () => {
  const sample = run(`${LOG} log("a", { n: 1 }); log("a", { n: 2 }); ${FOREVER}`);
  expect(await sample.waitForEvent("a", { where: ({ n }) => n === 2 })).toMatchObject({ n: 2 });
  await sample.kill("SIGKILL");
});

test("waiting for an event rejects when the process ends, with its last lines", async () => {
  const sample = run(`console.log("not JSON"); console.error("the reason"); process.exitCode = 3;`);
  await expect(sample.waitForEvent("a")).rejects.toThrow(/sample: a was not logged.*code 3[\s\S]*the reason/);
  expect(await sample.exit).toEqual({ code: 3, signal: null });
});

test("waiting for an event rejects when the time is over", async () => {
  const sample = run(FOREVER);
  await expect(sample.waitForEvent("a", { deadlineMs: 50 })).rejects.toThrow(/within 50 ms/);
  await sample.kill("SIGKILL");
});

test("an event logged just before the end is not lost", async () => {
  const sample = run(`${LOG} log("a", {});`);
  await sample.exit;
  expect(await sample.waitForEvent("a")).toMatchObject({ event: "a" });
});

test("children end with the process that started them", async () => {
  const spawnChild = new URL("../../shared/dev/child.ts", import.meta.url).href;
  const script = `
    const { spawnChild } = await import(${JSON.stringify(spawnChild)});
    const args = ["-e", ${JSON.stringify(FOREVER)}];
    console.log(spawnChild({ command: process.execPath, args, env: process.env }).pid);
    process.exit(0);`;
  const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script]);
  const [printed] = await once(parent.stdout, "data");
  const pid = Number(String(printed));
  await eventually(`process ${pid} has ended`, () => !isAlive(pid));
});

test("a free port can be listened on", async () => {
  const port = await freePort();
  const sample = run(`${LOG}
    const { createServer } = await import("node:net");
    const server = createServer().listen(${port}, "127.0.0.1", () => { log("listening", {}); server.close(); });`);
  await sample.waitForEvent("listening");
});
