import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { echo, keccak256, slow } from "../../../services/runner/jobs.ts";
import { createRouter } from "../../../services/runner/runner.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { type TestRunner, useRunners } from "../../fixtures/runners.ts";
import { hasLogged } from "./gated-jobs.ts";

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  runner = await runners.start({ jobs: createRouter().job(1, echo).job(2, keccak256).job(3, slow) });
});

test.each([
  ["no bytes", Buffer.alloc(0)],
  ["bytes that are no text", Buffer.from([0, 0xff, 0xfe, 13, 10])],
  ["many bytes", randomBytes(262_144)],
])("the job echo answers %s unchanged, under their Content-Type, from memory too", async (what, body) => {
  const key = what.replaceAll(" ", "-");
  const offered = { body, headers: { "Content-Type": "application/x-any; a=b" } };
  for (const answer of [await runner.offer(key, offered), await runner.offer(key, offered)]) {
    expect(answer.body.equals(body)).toBe(true);
    expect(answer.headers["content-type"]).toBe("application/x-any; a=b");
  }
});

test("the job echo answers without a Content-Type if the call has none", async () => {
  expect((await runner.offer("plain", { body: "x" })).headers["content-type"]).toBeUndefined();
});

test("the job keccak256 answers the published digests of the empty text and of abc", async () => {
  const digestOf = async (body: string) => (await runner.offer(`of-${body}`, { job: 2, body })).json();
  const empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
  const abc = "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45";
  expect([await digestOf(""), await digestOf("abc")]).toEqual([{ keccak256: empty }, { keccak256: abc }]);
});

test("the job slow logs its progress", async () => {
  await runner.offer("slow", { job: 3, body: '{"steps":2,"ms_per_step":1}' });
  await eventually("it is done", () => hasLogged(runner, "job.finished", "slow"));
  const progress = runner.log.events.filter(
    ({ event, fields }) => event === "job.progressed" && fields["callId"] === "slow",
  );
  expect(progress.map(({ fields }) => [fields["step"], fields["steps"], fields["job"]])).toEqual([
    [1, 2, "slow"],
    [2, 2, "slow"],
  ]);
});
