import { beforeAll, expect, test } from "vitest";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { type Offered, signedHeaders, type TestRunner, useRunners } from "../../../../fixtures/runners.ts";

const SECRET = new Secret("of producer and runner");

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  const jobs = createRouter().job(1, echo).job(2, echo);
  runner = await runners.start({ jobs, secrets: [SECRET] });
});

const offered: Offered = { body: "hello", headers: { "X-WEBHOOK-PATH": "/a", "Content-Type": "text/plain" } };
const withHeader = (name: string, value: string) => ({
  ...offered,
  headers: { ...offered.headers, [name]: value },
});

test.each<[string, { sent?: Offered; secret?: Secret }]>([
  ["by another secret", { secret: new Secret("of somebody else") }],
  ["for another job", { sent: { ...offered, job: 2 } }],
  ["for another body", { sent: { ...offered, body: "hallo" } }],
  ["without a metadata header that came", { sent: withHeader("X-Platform-Caller", "0x") }],
  ["for other metadata", { sent: withHeader("X-WEBHOOK-PATH", "/b") }],
  ["for another content type", { sent: withHeader("Content-Type", "text/html") }],
])(
  "a call signed %s is refused with 401 and does not run, and only the log says why",
  async (what, { sent = offered, secret = SECRET }) => {
    const key = what.replaceAll(" ", "-");
    const lower = Object.entries(sent.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
    const headers = { ...signedHeaders(secret, key, offered), ...Object.fromEntries(lower) };
    const refused = await runner.offer(key, { ...sent, headers });
    expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
    expect((await runner.get(`/calls/${key}`)).status).toBe(404);
    const line = runner.log.events.at(-1);
    expect(line).toMatchObject({ event: "job.refused", fields: { code: "runner.signature_rejected" } });
    expect(refused.text).not.toContain(line?.fields["reason"]);
  },
);

test("a call without a signature is refused with 401", async () => {
  expect((await runner.offer("unsigned")).status).toBe(401);
});
