import { expect, test } from "vitest";
import { createThrottle } from "../../../services/producer/throttle.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { recordingLog } from "../../support/recording-log.ts";

const JOB = "7/1";

function startThrottle(hold: (job: string, ms: number) => Promise<void> = async () => {}) {
  const held: [string, number][] = [];
  const time = { now: 1000 };
  const log = recordingLog();
  const throttle = createThrottle({
    throttleJob: (job, ms) => {
      held.push([job, ms]);
      return hold(job, ms);
    },
    clock: () => time.now,
    log,
  });
  const answer = (call: string, code: ErrorCode, retryAfterMs?: number, job = JOB) =>
    throttle.failed(
      job,
      call,
      new AppError(code, { reason: "", ...(retryAfterMs !== undefined && { retryAfterMs }) }),
    );
  return { throttle, held, time, log, answer };
}

test("three different calls of a job in a row with 429 pause that job, for a second if the runner does not say how long", () => {
  const { held, log, answer } = startThrottle();
  for (const call of ["a", "a", "a", "b"]) answer(call, "runner.throttled");
  for (const call of ["x", "y"]) answer(call, "runner.throttled", 5000, "7/2");
  expect(held).toEqual([]);
  answer("c", "runner.throttled");
  expect(held).toEqual([[JOB, 1000]]);
  expect(log.events).toEqual([{ event: "job.throttled", fields: { job: JOB, pauseMs: 1000 } }]);
});

test("a retryable answer with Retry-After counts as a 429, and no pause is longer than half a minute", () => {
  const { held, answer } = startThrottle();
  for (const call of ["a", "b", "c"]) answer(call, "runner.failed", 3_600_000);
  expect(held).toEqual([[JOB, 30_000]]);
});

test.each<[string, (its: ReturnType<typeof startThrottle>) => void]>([
  ["a success of the job", ({ throttle }) => throttle.succeeded(JOB)],
  ["another answer to a call of the job", ({ answer }) => answer("z", "runner.failed")],
])("%s ends the row", (_, interrupt) => {
  const its = startThrottle();
  for (const call of ["a", "b"]) its.answer(call, "runner.throttled");
  interrupt(its);
  its.answer("c", "runner.throttled");
  expect(its.held).toEqual([]);
});

test.each<[string, (its: ReturnType<typeof startThrottle>) => void]>([
  ["a success of another job", ({ throttle }) => throttle.succeeded("7/2")],
  ["a connection that could not be made", ({ answer }) => answer("z", "runner.unreachable")],
  [
    "a call that the runner is still running, which concerns that call alone,",
    ({ answer }) => answer("z", "runner.busy", 1),
  ],
])("%s neither counts nor ends the row", (_, interrupt) => {
  const its = startThrottle();
  for (const call of ["a", "b"]) its.answer(call, "runner.throttled");
  interrupt(its);
  expect(its.held).toEqual([]);
  its.answer("c", "runner.throttled");
  expect(its.held).toHaveLength(1);
});

test("calls that were in flight when the pause began do not extend it", () => {
  const { held, time, answer } = startThrottle();
  for (let call = 0; call < 50; call++) answer(`${call}`, "runner.throttled", 2000);
  expect(held).toHaveLength(1);
  time.now += 2000;
  for (let call = 0; call < 3; call++) answer(`${call}`, "runner.throttled", 2000);
  expect(held).toHaveLength(2);
});

test("a pause that cannot be written is logged, and the calls are still delayed one by one", async () => {
  const { log, answer } = startThrottle(() => Promise.reject(new Error("Redis is away")));
  for (const call of ["a", "b", "c"]) answer(call, "runner.throttled");
  await Promise.resolve();
  expect(log.events.at(-1)).toEqual({
    event: "job.throttle_failed",
    fields: { job: JOB, reason: "Redis is away" },
  });
});
