import { type ChildProcessWithoutNullStreams, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { useEnds } from "../../../fixtures/ends.ts";
import { LONG_RUN, onlyInLongRun } from "../../../support/long-run.ts";
import { bundled } from "../../../support/programs.ts";

const { defer } = useEnds();

/** Starts a process that runs this script with its logger once its stdin has ended. */
function logging(script: string, stdio: StdioOptions = ["pipe", "pipe", "inherit"]) {
  const program = `
    const { createProcessLogger } = await import(${JSON.stringify(bundled("pino-logger"))});
    const log = createProcessLogger("sample", { pretty: false });
    process.on("SIGTERM", () => {});
    process.stdin.resume().on("end", () => { ${script} });`;
  const args = ["--input-type=module", "-e", program];
  const sample = spawn(process.execPath, args, { stdio }) as ChildProcessWithoutNullStreams;
  defer(() => sample.kill("SIGKILL"));
  return sample;
}

/** Both timers run late, so that the last line is logged while the first one is being written. */
const LAST_LINE_DURING_A_WRITE = `
  log.info("first");
  setTimeout(() => { log.info("last"); log.flush(); process.exit(0); }, 20);
  for (const until = Date.now() + 50; Date.now() < until; );`;

test("a process whose log is no longer read exits, even if it logs its last line during a write", async () => {
  const sample = logging(LAST_LINE_DURING_A_WRITE);
  sample.stdout.destroy();
  sample.stdin.end();
  expect(await once(sample, "exit")).toEqual([0, null]);
});

onlyInLongRun(() => {
  test("the last line before the exit is written, even if it is logged during a write", async () => {
    const sample = logging(LAST_LINE_DURING_A_WRITE);
    let written = "";
    sample.stdout.on("data", (chunk: Buffer) => {
      written += chunk.toString();
    });
    sample.stdin.end();
    await once(sample, "close");
    expect(written).toContain('"event":"last"');
  });

  test.each([
    ["exits", "process.exit(0)"],
    ["flushes and exits", "log.flush().then(() => process.exit(0))"],
  ])("a process whose log reader has stopped reading still exits when it %s", async (_how, ending) => {
    const sample = logging(`
    for (let n = 0; n < 20_000; n++) log.info("line", { n });
    setTimeout(() => { log.info("last"); ${ending}; }, 100);`);
    sample.stdout.pause();
    sample.stdin.end();
    expect(await once(sample, "exit")).toEqual([0, null]);
  });

  test("a flush writes the last line after the lines that are being written", async () => {
    const sample = logging(`
    for (let n = 0; n < 2000; n++) log.info("line", { n });
    setTimeout(() => { log.info("line", { n: 2000 }); log.flush().then(() => process.exit(0)); }, 20);
    for (const until = Date.now() + 50; Date.now() < until; );`);
    let written = "";
    sample.stdout.on("data", (chunk: Buffer) => {
      written += chunk.toString();
    });
    sample.stdin.end();
    await once(sample, "close");
    const numbers = written
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).n);
    expect(numbers).toEqual(Array.from({ length: 2001 }, (_, n) => n));
  });
});

const LINES = LONG_RUN ? 20_000 : 4000;

test("lines are written in the order in which they are logged, even if they are logged faster than they are written", async () => {
  const sample = logging(`
    let n = 0;
    const more = setInterval(() => {
      for (const end = n + 2000; n < end; n++) log.info("line", { n });
      if (n === ${LINES}) clearInterval(more);
    }, 5);`);
  const lines: string[] = [];
  let rest = "";
  sample.stdout.on("data", (chunk: Buffer) => {
    const whole = (rest + chunk.toString()).split("\n");
    rest = whole.pop() ?? "";
    lines.push(...whole);
  });
  sample.stdin.end();
  await once(sample, "close");
  expect(lines.map((line) => JSON.parse(line).n)).toEqual(Array.from({ length: LINES }, (_, n) => n));
});

/**
 * Logs 400 MB, most of it while nothing reads stdout. Then writes to stderr by how many MiB its memory has grown. SIGUSR2
 * makes it log one more line and exit.
 */
const FAR_TOO_MUCH = `
  const text = "x".repeat(10_000);
  const before = process.memoryUsage().rss;
  let n = 0;
  const more = setInterval(() => {
    for (const end = n + 1000; n < end; n++) log.info("line", { n, text });
    if (n < 40_000) return;
    clearInterval(more);
    const alive = setInterval(() => {}, 1000);
    process.once("SIGUSR2", () => { clearInterval(alive); log.info("after"); });
    console.error((process.memoryUsage().rss - before) / 1024 / 1024);
  }, 5);`;

onlyInLongRun(() => {
  test("a reader that stops costs bounded memory and blocks nothing, and later the log states how many lines were dropped", async () => {
    const sample = logging(FAR_TOO_MUCH, ["pipe", "pipe", "pipe"]);
    sample.stdout.pause();
    sample.stdin.end();
    // A write that blocked would never end, because nothing is read before the process has logged everything.
    const [grownMib] = (await once(sample.stderr, "data")) as [Buffer];
    expect(Number(grownMib)).toBeLessThan(150);

    let next = 0;
    let dropped = 0;
    const later: string[] = [];
    for await (const line of createInterface(sample.stdout)) {
      const { event, n, lines } = JSON.parse(line);
      if (next === 40_000) {
        later.push(event);
        continue;
      }
      if (event === "log.lines_dropped") dropped += lines;
      else expect(n).toBe(next);
      next += event === "log.lines_dropped" ? lines : 1;
      if (next === 40_000) sample.kill("SIGUSR2");
    }
    expect(later).toEqual(["after"]);
    expect(dropped).toBeGreaterThan(30_000);
  });
});
