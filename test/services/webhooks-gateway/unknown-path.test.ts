import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const webhooks = useWebhooks();
const endpoints = [{ path: "/hooks/github", job_id: 1, auth: "none" }];

const recorded = async () => (await createRejectedList(webhooks.redis.partition).matching({}, 10)).newest;

test("a request whose path differs from an endpoint's by a slash gets only a 404, and the log names the endpoint", async () => {
  const { address, log } = await webhooks.start({ endpoints });
  const answer = await send(address, { path: "/hooks/github/?key=hidden", body: "x" });
  expect(answer.status).toBe(404);
  expect(answer.text).not.toContain('"/hooks/github"');
  const said = {
    path: "/hooks/github/",
    address: "127.0.0.1",
    method: "POST",
    reason: "differs from /hooks/github by a trailing slash",
  };
  expect(log.events.filter(({ event }) => event === "webhook.path_unknown")).toEqual([
    { event: "webhook.path_unknown", fields: { ...said, meant: "/hooks/github", count: 1 } },
  ]);
  await eventually("recorded", async () => (await recorded()).length === 1);
  expect(await recorded()).toMatchObject([
    { ...said, endpoint: undefined, code: "request.not_found", query: ["key"] },
  ]);
  expect(JSON.stringify([log.events, await recorded()])).not.toContain("hidden");
});

test("a flood of requests to unknown paths writes few log lines, which count the rest", async () => {
  let now = 1_800_000_000_000;
  const { address, log } = await webhooks.start({ endpoints, clock: () => now });
  for (let i = 0; i < 150; i += 1) await send(address, { method: "GET", path: `/${i}.php` });
  now += 1000;
  await send(address, { method: "GET", path: "/last.php" });
  const lines = log.events.filter(({ event }) => event === "webhook.path_unknown");
  // Entries of the path's bucket, and of the bucket of all paths if Redis is slow to store them.
  expect(lines.length).toBeGreaterThanOrEqual(51);
  expect(lines.length).toBeLessThanOrEqual(101);
  expect(lines.at(-1)!.fields).toMatchObject({ path: "/last.php" });
  expect(lines.reduce((sum, { fields }) => sum + Number(fields["count"]), 0)).toBe(151);
});

test("probes, even with a method that they refuse, do not count as unknown paths", async () => {
  const { address, log } = await webhooks.start({ endpoints });
  await send(address, { method: "GET", path: "/livez" });
  await send(address, { method: "POST", path: "/livez" });
  expect(log.events.filter(({ event }) => event === "webhook.path_unknown")).toEqual([]);
});
