import { beforeAll, expect, test } from "vitest";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  runner = await runners.start({ jobs: createRouter().job(1, echo) });
});

test.each([
  ["is missing", undefined],
  ["is empty", ""],
  ["has a space", "has space"],
  ["has 129 characters", "x".repeat(129)],
])("a call whose Idempotency-Key %s is refused with 400", async (_, key) => {
  const refused = await runner.offer("", { headers: { "Idempotency-Key": key } });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "runner.key_missing"]);
});

test("a call whose Idempotency-Key comes twice is refused with 400", async () => {
  const headers = ["Idempotency-Key", "a", "Idempotency-Key", "a"];
  const refused = await send(runner.address, { path: "/jobs/1", headers, body: "" });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "runner.key_missing"]);
});

test("a Content-Digest that is wrong is refused with 400, though no signature is needed", async () => {
  const refused = await runner.offer("k", { body: "x", headers: { "Content-Digest": "sha-256=:AAAA:" } });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
});

test("a call with a metadata header that comes twice is refused with 400", async () => {
  const twice = ["X-WEBHOOK-PATH", "/a", "X-Webhook-Path", "/a"];
  const headers = ["Idempotency-Key", "k", ...twice];
  const refused = await send(runner.address, { path: "/jobs/1", headers, body: "" });
  expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
});
