import { beforeAll, expect, test } from "vitest";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { signedHeaders, type TestRunner } from "../../../../fixtures/runners.ts";
import { useFailingJob } from "./failing-job.ts";

const SECRET = new Secret("of producer and runner");

const job = useFailingJob();
let closed: TestRunner;
beforeAll(async () => {
  closed = await job.another({ secrets: [SECRET] });
  await job.fail("k");
});

const headersFor = (id: string, secret = SECRET) => signedHeaders(secret, id, { path: `/calls/${id}/run` });

test.each([
  ["not signed", () => ({})],
  ["signed by another", () => headersFor("k", new Secret("of somebody else"))],
  ["signed for another call", () => headersFor("other")],
  ["signed for a job", () => signedHeaders(SECRET, "k")],
  ["signed for other bytes", () => signedHeaders(SECRET, "k", { body: "x", path: "/calls/k/run" })],
])("a request to run a call again that is %s is refused with 401, and runs nothing", async (_, headers) => {
  const refused = await closed.runAgain("k", { headers: { "Idempotency-Key": "k", ...headers() } });
  expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
  expect(closed.log.events.at(-1)).toMatchObject({ event: "job.refused", fields: { callId: "k" } });
  expect(await job.look("k")).toMatchObject({ state: "failed" });
});
