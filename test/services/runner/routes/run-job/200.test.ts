import { beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter, json, text } from "../../../../../services/runner/runner.ts";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { signedHeaders, type TestRunner, useRunners } from "../../../../fixtures/runners.ts";

const OLD = new Secret("the secret before rotation");
const NEW = new Secret("the secret after rotation");

const jobs = createRouter()
  .job(1, echo)
  .job(2, {
    name: "add",
    input: json(z.strictObject({ a: z.int(), b: z.int().default(1) })),
    handler: add,
  })
  .job(3, { name: "shout", input: text(), handler: ({ input }) => ({ body: input.toUpperCase() }) })
  .job(4, {
    name: "of a caller",
    metadata: z.object({ "X-PLATFORM-CALLER": z.string().startsWith("0x") }),
    handler: ({ metadata }) => ({ body: metadata["X-PLATFORM-CALLER"] }),
  });

function add({ input }: { input: { a: number; b: number } }) {
  return { json: { sum: input.a + input.b } };
}

const runners = useRunners();
let open: TestRunner;
let closed: TestRunner;
beforeAll(async () => {
  open = await runners.start({ jobs });
  closed = await runners.start({ jobs, secrets: [NEW, OLD] });
});

test("a call is answered with 200 without a signature where the runner has no secret", async () => {
  expect(await open.offer("unsigned", { body: "x" })).toMatchObject({ status: 200, text: "x" });
});

test.each([
  ["new", NEW],
  ["old", OLD],
])("a call signed with the %s secret runs while both are active", async (which, secret) => {
  const headers = { "X-WEBHOOK-PATH": "/a", "Content-Type": "text/plain" };
  const offered = { body: "hello", headers };
  const signed = signedHeaders(secret, which, offered);
  expect(await closed.offer(which, { body: "hello", headers: signed })).toMatchObject({
    status: 200,
    text: "hello",
  });
});

test("a job gets its body as JSON, by its schema, with defaults filled in", async () => {
  expect((await open.offer("json", { job: 2, body: '{"a":2}' })).json()).toEqual({ sum: 3 });
});

test("a job gets its body as text", async () => {
  expect((await open.offer("text", { job: 3, body: "é!" })).text).toBe("É!");
});

test("a job gets its metadata, typed by its schema", async () => {
  const offered = { job: 4, headers: { "X-PLATFORM-CALLER": "0xabc" } };
  expect((await open.offer("metadata", offered)).text).toBe("0xabc");
});

test("the log line of a call names the sender's event", async () => {
  await open.offer("of-a-sender", { headers: { "X-WEBHOOK-EVENT": "push" } });
  const line = open.log.events.find(({ fields }) => fields["callId"] === "of-a-sender");
  expect(line).toMatchObject({ event: "job.finished", fields: { eventType: "push" } });
});
