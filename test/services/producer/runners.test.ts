import { expect, test } from "vitest";
import { Hold } from "../../../services/producer/consumer/hold.ts";
import { createRunners, type JobRunner } from "../../../services/producer/runners.ts";
import { parseJobCall } from "../../../shared/call/job-call.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { recordingLog } from "../../support/recording-log.ts";

const ends = useEnds();
const producers = useProducer();
const usual = useFakeRunner();
const special = useFakeRunner();

function startRunners(jobs: Readonly<Record<string, JobRunner>>) {
  const settings = { secret: undefined, timeoutMs: 3000 };
  const runners = createRunners({
    runners: { default: { url: usual.url, ...settings }, special: { url: special.url, ...settings } },
    jobs: new Map(Object.entries(jobs)),
    connections: 5,
    resultBytesMax: 256 * 1024,
    clock: systemClock,
    log: recordingLog(),
  });
  ends.defer(runners.close);
  const inject = (job_id: number): Promise<string> =>
    runners.inject(parseJobCall(aCall({ job_id })), new Hold()).then(
      () => "injected",
      (error: unknown) => toAppError(error).code,
    );
  return { ...runners, inject };
}

test("a call goes to the runner of its job, and to the default one if the job names none", async () => {
  const { inject } = startRunners({ "7/5": { runner: "special" }, "7/6": { timeoutMs: 1000 }, "8/1": {} });
  for (const job of [5, 6, 1]) expect(await inject(job)).toBe("injected");
  expect(special.offers.map(({ path }) => path)).toEqual(["/jobs/5"]);
  expect(usual.offers.map(({ path }) => path)).toEqual(["/jobs/6", "/jobs/1"]);
});

test("a job that names an unknown runner stops the start", () => {
  expect(() => startRunners({ "7/5": { runner: "speciel" } })).toThrow('no runner "speciel"');
});

test("a job's own timeout ends only the injections of that job", async () => {
  const { inject } = startRunners({ "7/5": { timeoutMs: 1000 } });
  let ended: Promise<string> = Promise.resolve("");
  usual.answer = async ({ path }) => {
    if (path === "/jobs/5") return "silence";
    await ended;
    return { status: 200 };
  };
  ended = inject(5);
  expect(await Promise.all([ended, inject(1)])).toEqual(["runner.timed_out", "injected"]);
});

test("the health of each runner depends only on its own calls", async () => {
  const { inject, health } = startRunners({ "7/5": { runner: "special", timeoutMs: 1000 } });
  const states = () => Object.fromEntries(health().map(({ name, state }) => [name, state]));
  expect(states()).toEqual({ default: "unasked", special: "unasked" });
  special.answer = () => "silence";
  expect(await inject(5)).toBe("runner.timed_out");
  usual.answer = () => ({ status: 422 });
  expect(await inject(1)).toBe("runner.refused");
  expect(states()).toEqual({ default: "answers", special: "silent" });
  expect(health().find(({ name }) => name === "special")?.reason).toMatch(/no answer within/);
});

test("a runner is failing while its newest answer is a 5xx without Retry-After", async () => {
  const { inject, health } = startRunners({});
  const asksToWait = { status: 503, headers: { "Retry-After": "1" } };
  const answers = [...[502, 429, 503].map((status) => ({ status })), asksToWait];
  const states: [number, string | undefined][] = [];
  for (const answer of [...answers, ...[500, 409, 504, 200].map((status) => ({ status }))]) {
    usual.answer = () => answer;
    await inject(1);
    states.push([answer.status, health()[0]?.state]);
  }
  expect(states).toEqual([
    ...[
      [502, "failing"],
      [429, "answers"],
      [503, "failing"],
      [503, "answers"],
    ],
    ...[
      [500, "failing"],
      [409, "answers"],
      [504, "failing"],
      [200, "answers"],
    ],
  ]);
});

test("a runner that is away gets no call, and the jobs of another runner continue", async () => {
  const { inject, isAway, onChange } = startRunners({ "7/5": { runner: "special" } });
  const changes: boolean[] = [];
  onChange(() => changes.push(isAway("7/5")));
  await special.leave();
  for (let i = 0; i < 3; i++) expect(await inject(5)).toBe("runner.unreachable");
  expect([isAway("7/5"), isAway("7/1")]).toEqual([true, false]);
  await special.comeBack();
  expect(await inject(5)).toBe("runner.unreachable");
  expect(special.offers).toEqual([]);
  expect(await inject(1)).toBe("injected");
  await eventually("a probe finds it", () => !isAway("7/5"));
  expect(special.probes).toBe(1);
  expect(changes).toEqual([true, false]);
  expect(await inject(5)).toBe("injected");
});

test("an outage uses up no attempt, records nothing and logs two lines; then every call is injected at its first attempt", async () => {
  const { saw, count, log } = producers.start({ runnerUrl: usual.url, attempts: 1 });
  await usual.leave();
  const calls = Array.from({ length: 20 }, () => aCall());
  for (const call of calls) await producers.add(call);
  await saw("runner.down");
  expect(await producers.queues.countIn("failed")).toBe(0);
  for (const { id } of calls) expect(await producers.records.attempts(id)).toEqual([]);
  await usual.comeBack();
  await saw("call.injected", 20);
  const injected = log.events.filter(({ event }) => event === "call.injected");
  expect(injected.map(({ fields }) => fields["attempt"])).toEqual(Array(20).fill(1));
  expect(usual.offers).toHaveLength(20);
  expect(["runner.down", "runner.up", "call.delayed", "call.released"].map(count)).toEqual([1, 1, 0, 0]);
});
