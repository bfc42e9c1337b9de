import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const runners = useRunners({ fresh: "test" });

test("a call whose handler throws is answered with 500, and only the log says what it threw", async () => {
  const handler = () => Promise.reject(new Error("no luck"));
  const { offer, log } = await runners.start({ jobs: createRouter().job(1, { name: "unlucky", handler }) });
  const thrown = await offer("k");
  expect([thrown.status, thrown.json()["code"]]).toEqual([500, "runner.handler_failed"]);
  expect(thrown.text).not.toContain("no luck");
  expect(log.events.at(-1)).toMatchObject({
    event: "job.failed",
    fields: { status: 500, reason: "no luck" },
  });
});

test("an answer that HTTP cannot carry is a failure of the job, answered with 500 and not remembered", async () => {
  const types = ["text/plain; name=中", "text/plain\r\nX-More: 1", "text/plain"];
  const handler = () => ({ contentType: types.shift() ?? "none is left", body: "done" });
  const { offer } = await runners.start({ jobs: createRouter().job(1, { name: "odd", handler }) });
  for (const refused of [await offer("k"), await offer("k")]) {
    expect([refused.status, refused.json()["code"]]).toEqual([500, "runner.handler_failed"]);
  }
  expect(await offer("k")).toMatchObject({ status: 200, text: "done" });
});
