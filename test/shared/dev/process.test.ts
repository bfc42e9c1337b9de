import { expect, test } from "vitest";
import { startProcess } from "../../../shared/dev/process.ts";
import { useEnds } from "../../fixtures/ends.ts";

const ends = useEnds();

/** A process that runs this script. */
function run(script: string) {
  const entry = ["--input-type=module", "-e", script];
  const sample = startProcess({ name: "sample", args: [], entry, env: process.env });
  ends.defer(() => sample.kill("SIGKILL"));
  return sample;
}

const LOG = `const log = (event, fields) => console.log(JSON.stringify({ event, ...fields }));`;
const FOREVER = `setInterval(() => {}, 1000);`;

test("an event of a process is found whether it was logged before or after the wait for it began", async () => {
  const sample = run(`${LOG} log("a", { n: 1 }); setTimeout(() => log("b", { n: 2 }), 50); ${FOREVER}`);
  expect(await sample.waitForEvent("b")).toMatchObject({ n: 2 });
  expect(await sample.waitForEvent("a")).toMatchObject({ n: 1 });
  expect(sample.events("a")).toHaveLength(1);
  expect(await sample.kill("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
});

test("among events with the same name, the one that meets the condition is found", async () => {
  const sample = run(`${LOG} log("a", { n: 1 }); log("a", { n: 2 }); ${FOREVER}`);
  expect(await sample.waitForEvent("a", { where: ({ n }) => n === 2 })).toMatchObject({ n: 2 });
});

test("a wait for an event rejects when the process ends, with its last lines", async () => {
  const sample = run(`console.log("not JSON"); console.error("the reason"); process.exitCode = 3;`);
  await expect(sample.waitForEvent("a")).rejects.toThrow(/sample: a was not logged.*code 3[\s\S]*the reason/);
  expect(await sample.exit).toEqual({ code: 3, signal: null });
});

test("a wait for an event rejects when its time is over", async () => {
  const sample = run(FOREVER);
  await expect(sample.waitForEvent("a", { deadlineMs: 50 })).rejects.toThrow(/within 50 ms/);
});

test("an event that a process logs just before its end is not lost", async () => {
  const sample = run(`${LOG} log("a", {});`);
  await sample.exit;
  expect(await sample.waitForEvent("a")).toMatchObject({ event: "a" });
});
