import { beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { createRouter, json, text } from "../../../../../services/runner/runner.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";
import { gatedShort, stateOf } from "../../gated-jobs.ts";

const LONG = 3;
const OF_A_CALLER = 4;
const jobs = createRouter()
  .job(1, { name: "add", input: json(z.strictObject({ a: z.int() })), handler: () => ({}) })
  .job(2, { name: "shout", input: text(), handler: ({ input }) => ({ body: input.toUpperCase() }) })
  .job(LONG, {
    name: "long",
    long: true,
    input: json(z.strictObject({ steps: z.int() })),
    handler: async () => {},
  })
  .job(OF_A_CALLER, {
    name: "of a caller",
    metadata: z.object({ "X-PLATFORM-CALLER": z.string().startsWith("0x") }),
    handler: () => ({}),
  });

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  runner = await runners.start({ jobs });
});

test.each([
  ["is no JSON", 1, "{", /not JSON/],
  ["is missing", 1, "", /not JSON/],
  ["has the wrong type", 1, '{"a":"2"}', /expected int|expected number/],
  ["has an unknown key", 1, '{"a":2,"c":1}', /"c"/],
  ["is no text", 2, Buffer.from([0xc3, 0x28]), /not UTF-8/],
])("a call whose input %s is refused with 422, and the answer says why", async (what, job, body, reason) => {
  const refused = await runner.offer(what.replaceAll(" ", "-"), { job, body });
  expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
  expect(refused.json()["detail"]).toMatch(reason);
});

test("a call without the metadata that its job needs is refused with 422, and the answer names it", async () => {
  const refused = await runner.offer("without-metadata", { job: OF_A_CALLER });
  expect([refused.status, refused.json()["detail"]]).toEqual([
    422,
    expect.stringContaining("X-PLATFORM-CALLER"),
  ]);
});

test("a long call whose input its job refuses is refused with 422 and is not stored", async () => {
  const refused = await runner.offer("long", { job: LONG, body: '{"steps":"many"}' });
  expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
  expect(refused.json()["detail"]).toContain("steps");
  expect(await stateOf(runner, "long")).toBe("failed");
  expect((await runner.offer("long-2", { job: LONG, body: '{"steps":2}' })).status).toBe(202);
});

test("a call that was refused for its input is looked at anew when it is repeated", async () => {
  expect((await runner.offer("refused", { body: "{" })).status).toBe(422);
  const lenient = createRouter().job(1, { name: "lenient", handler: () => ({ body: "taken" }) });
  const other = await runners.start({ jobs: lenient });
  expect((await runner.offer("refused", { body: "{" })).status).toBe(422);
  expect(await other.offer("refused", { body: "{" })).toMatchObject({ status: 200, text: "taken" });
});

test("a key that stands for another job or other bytes is refused with 422, while its call runs and after", async () => {
  const { at, jobs } = gatedShort();
  const handler = () => ({});
  const [here, there] = [
    await runners.start({ jobs: jobs.job(2, { name: "other", handler }) }),
    await runners.start({ jobs }),
  ];
  const first = here.offer("k", { body: "x" });
  await eventually("the handler runs", () => at.runs === 1);
  const expectRefused = async () => {
    for (const runner of [here, there]) {
      for (const other of [{ body: "y" }, { job: 2, body: "x" }]) {
        const refused = await runner.offer("k", other);
        expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.key_reused"]);
      }
    }
  };
  await expectRefused();
  at.open();
  await first;
  await expectRefused();
  expect(at.runs).toBe(1);
});
