import { beforeAll, expect, test } from "vitest";
import { createRouter } from "../../../services/runner/runner.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { signedHeaders, type TestRunner, useRunners } from "../../fixtures/runners.ts";

const SECRET = new Secret("of producer and runner");
const runners = useRunners();
let closed: TestRunner;
let open: TestRunner;

beforeAll(async () => {
  const jobs = createRouter().job(1, {
    name: "tells its metadata",
    handler: ({ metadata }) => ({ json: metadata }),
  });
  closed = await runners.start({ jobs, secrets: [SECRET] });
  open = await runners.start({ jobs });
});

const forwarded = {
  "x-webhook-forwarded": "X-GitHub-Event, X-GitHub-Hook-ID",
  "x-github-event": "push",
  "x-github-hook-id": "30",
};

test.each(["signed", "unsigned"])(
  "a job's metadata has the sender's forwarded headers in a %s call",
  async (how) => {
    const headers = { ...forwarded, "X-Other": "from a proxy on the way" };
    const signed = signedHeaders(SECRET, how, { headers: forwarded });
    const answer =
      how === "signed"
        ? await closed.offer(how, { headers: { ...headers, ...signed } })
        : await open.offer(how, { headers });
    expect(answer.json()).toEqual({
      "X-WEBHOOK-FORWARDED": "X-GitHub-Event, X-GitHub-Hook-ID",
      "X-GITHUB-EVENT": "push",
      "X-GITHUB-HOOK-ID": "30",
    });
  },
);

test.each([
  [
    "a forwarded header that the signature does not cover",
    { "x-webhook-forwarded": "X-GitHub-Event" },
    { "x-github-event": "push" },
  ],
  [
    "a list of forwarded headers that it does not cover",
    {},
    { "x-webhook-forwarded": "X-GitHub-Event", "x-github-event": "push" },
  ],
  [
    "another value of a forwarded header",
    { "x-webhook-forwarded": "X-GitHub-Event", "x-github-event": "ping" },
    { "x-github-event": "push" },
  ],
])("a call with %s is refused with 401", async (what, covered, sent) => {
  const key = what.replaceAll(" ", "-");
  const headers = { ...signedHeaders(SECRET, key, { headers: covered }), ...sent };
  expect((await closed.offer(key, { headers })).status).toBe(401);
});
