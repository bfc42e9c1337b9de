import { expect, test } from "vitest";
import { createRetryPolicy } from "../../../services/producer/retry-policy.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";

const policy = createRetryPolicy({
  attempts: 3,
  backoff: { baseMs: 100, capMs: 1000 },
  jobs: new Map([
    ["7/5", { attempts: 2 }],
    ["7/6", { backoff: { baseMs: 7, capMs: 7 } }],
  ]),
  random: () => 1,
});
const judge = (code: ErrorCode, attempt: number, job = "7/1") =>
  policy.judge(new AppError(code, { reason: "no" }), attempt, job);

test("a job's own attempts and backoff replace the defaults, each separately", () => {
  expect(judge("runner.failed", 2, "7/5")).toMatchObject({ kind: "fail" });
  expect(judge("runner.failed", 1, "7/5")).toMatchObject({ kind: "retry", afterMs: 100 });
  expect(judge("runner.failed", 2, "7/6")).toMatchObject({ kind: "retry", afterMs: 7 });
  expect(judge("runner.failed", 3, "7/6")).toMatchObject({ kind: "fail" });
  expect(judge("runner.failed", 2, "7/1")).toMatchObject({ kind: "retry", afterMs: 200 });
});

test("an unreachable runner uses up no attempt, and the wait does not grow with the attempts of the call", () => {
  for (const attempt of [1, 3, 99]) {
    expect(judge("runner.unreachable", attempt, "7/1")).toEqual({ kind: "postpone", afterMs: 100 });
  }
});

test("a connection that breaks during a call uses up an attempt, so a call that crashes its runner fails in the end", () => {
  expect(judge("runner.disconnected", 2, "7/1")).toMatchObject({ kind: "retry" });
  expect(judge("runner.disconnected", 3, "7/1")).toMatchObject({ kind: "fail" });
});
