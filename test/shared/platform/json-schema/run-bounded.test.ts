import { expect, test } from "vitest";
import { runBounded } from "../../../../shared/platform/json-schema/run-bounded.ts";

const nobody = new Int32Array(new SharedArrayBuffer(4));

/** Waits for a minute without using the processor, like a process on a busy machine. */
function standStill(): void {
  Atomics.wait(nobody, 0, 0, 60_000);
}

function count<Result>(work: (time: number) => Result) {
  let times = 0;
  return { work: () => work(++times), times: () => times };
}

test("work that uses the whole time limit is stopped, and not tried again", () => {
  const begun: NodeJS.CpuUsage[] = [];
  const endless = () => {
    begun.push(process.cpuUsage());
    for (;;) if (Number.isNaN(performance.now())) return "done";
  };
  expect(runBounded(endless, 100)).toBeUndefined();
  // The work may begin again only on a machine that gives this process less than half of the time.
  for (const [i, { user, system }] of begun.slice(1).entries()) {
    const before = begun[i] as NodeJS.CpuUsage;
    expect((user + system - before.user - before.system) / 1000).toBeLessThan(60);
  }
});

test("work that got no processor time is tried again", () => {
  const unlucky = count((time) => {
    if (time < 3) standStill();
    return "done";
  });
  expect(runBounded(unlucky.work, 50)).toBe("done");
});

test("work that never gets processor time is given up", () => {
  const stuck = count(standStill);
  expect(runBounded(stuck.work, 20)).toBeUndefined();
  expect(stuck.times()).toBe(4);
});

test("an error that the work throws is passed on", () => {
  const failing = () => {
    throw new RangeError("too deep");
  };
  expect(() => runBounded(failing, 100)).toThrow(new RangeError("too deep"));
});
