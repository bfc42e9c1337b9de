import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { counting, gatedLong, gatedShort, stateOf } from "../../gated-jobs.ts";

const runners = useRunners({ fresh: "test" });

test("a repeat of a successful call gets the first answer again, and nothing runs", async () => {
  const { seen, jobs } = counting();
  const { offer, log } = await runners.start({ jobs });
  const first = await offer("k", { body: "x" });
  const again = await offer("k", { body: "x" });
  expect([first.status, first.text, first.headers["idempotent-replayed"]]).toEqual([201, "run 1", undefined]);
  expect([again.status, again.text, again.headers["idempotent-replayed"]]).toEqual([201, "run 1", "true"]);
  expect(again.headers["content-type"]).toBe("text/x-count");
  expect(seen.runs).toBe(1);
  const finished = log.events.filter(({ event }) => event === "job.finished").map(({ fields }) => fields);
  expect(finished).toMatchObject([
    { callId: "k", jobId: 1, job: "count", status: 201, replayed: false },
    { callId: "k", jobId: 1, job: "count", status: 201, replayed: true },
  ]);
});

test("only 2xx answers are remembered: after a failure the next request runs the call", async () => {
  const answers = [
    () => Promise.reject(new Error("no luck")),
    () => Promise.resolve({ status: 503, body: "busy myself" }),
    () => Promise.resolve({ status: 404, body: "not mine" }),
    () => Promise.resolve({ body: "done" }),
  ];
  const jobs = createRouter().job(1, {
    name: "moody",
    handler: () => answers.shift()?.() ?? Promise.reject(),
  });
  const { offer, log } = await runners.start({ jobs });
  expect((await offer("k")).status).toBe(500);
  expect(await offer("k")).toMatchObject({ status: 503, text: "busy myself" });
  expect(await offer("k")).toMatchObject({ status: 404, text: "not mine" });
  expect(await offer("k")).toMatchObject({ status: 200, text: "done" });
  const failures = log.events.filter(({ event }) => event === "job.failed").map(({ fields }) => fields);
  expect(failures).toMatchObject([{ status: 500, reason: "no luck" }, { status: 503 }, { status: 404 }]);
});

test("a repeat of a long call gets the same 202 while it waits, while it runs and after it is done", async () => {
  const { at, jobs } = gatedLong();
  const runner = await runners.start({ jobs });
  const first = await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  const during = await runner.offer("k");
  at.open();
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  const after = await runner.offer("k");
  for (const repeat of [during, after]) {
    expect([repeat.status, repeat.text, repeat.headers["idempotent-replayed"]]).toEqual([
      202,
      first.text,
      "true",
    ]);
  }
  expect(at.runs).toBe(1);
});

test("a client that disconnected while the handler ran gets the answer when it repeats the call", async () => {
  const { at, jobs } = gatedShort();
  const runner = await runners.start({ jobs });
  const impatient = new AbortController();
  const gone = fetch(`http://${runner.address}/jobs/1`, {
    method: "POST",
    headers: { "Idempotency-Key": "k" },
    signal: impatient.signal,
  }).catch(() => "gone");
  await eventually("the handler runs", () => at.runs === 1);
  impatient.abort();
  expect(await gone).toBe("gone");
  at.open();
  await eventually("the answer is stored", async () => (await runner.offer("k")).status === 200);
  expect(at.runs).toBe(1);
});
