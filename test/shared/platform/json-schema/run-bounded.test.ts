import { expect, test } from "vitest";
import { runBounded } from "../../../../shared/platform/json-schema/run-bounded.ts";

const nobody = new Int32Array(new SharedArrayBuffer(4));

/** Takes a minute of the clock and no time of the processor, as a process that a busy machine does not run. */
function standStill(): void {
  Atomics.wait(nobody, 0, 0, 60_000);
}

function count<Result>(work: (time: number) => Result) {
  let times = 0;
  return { work: () => work(++times), times: () => times };
}

test("work that uses its time is ended, and not begun again", () => {
  const begun: NodeJS.CpuUsage[] = [];
  const endless = () => {
    begun.push(process.cpuUsage());
    for (;;) if (Number.isNaN(performance.now())) return "done";
  };
  expect(runBounded(endless, 100)).toBeUndefined();
  // Only a machine that gives this process less than half of its time has it begin again.
  for (const [i, { user, system }] of begun.slice(1).entries()) {
    const before = begun[i] as NodeJS.CpuUsage;
    expect((user + system - before.user - before.system) / 1000).toBeLessThan(60);
  }
});

test("work that stood still, since its process was not run, begins again", () => {
  const unlucky = count((time) => {
    if (time < 3) standStill();
    return "done";
  });
  expect(runBounded(unlucky.work, 50)).toBe("done");
});

test("work that always stands still is given up", () => {
  const stuck = count(standStill);
  expect(runBounded(stuck.work, 20)).toBeUndefined();
  expect(stuck.times()).toBe(4);
});

test("what work throws is thrown", () => {
  const failing = () => {
    throw new RangeError("too deep");
  };
  expect(() => runBounded(failing, 100)).toThrow(new RangeError("too deep"));
});
