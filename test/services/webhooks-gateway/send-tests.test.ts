import { expect, test } from "vitest";
import { createOrderTest } from "../../../shared/ingress/endpoint-tests.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";

const webhooks = useWebhooks();
const SECRET = "a secret that only the sender and we know";
const PATH = "/hooks/a";
const act = (path: string) =>
  ({ at: Date.now(), action: "test", path, by: "otto", selection: "by path", reason: "it is new" }) as const;
const order = (path = PATH) => createOrderTest(webhooks.redis.partition)(act(path));

test("a test is signed with the endpoint's secret, checked like any webhook, and becomes one call, no matter how many gateways run", async () => {
  const endpoints = [{ path: PATH, job_id: 1, preset: "github", secret: SECRET }];
  await webhooks.start({ endpoints });
  await webhooks.start({ endpoints });
  const outcome = await order();
  const [call, ...others] = await webhooks.waiting();
  expect(outcome).toEqual({
    ...{ status: 202, accepted: true, call_id: call?.id },
    detail: `accepted: job 1, call ${call?.id}`,
  });
  expect(others).toEqual([]);
});

test("a test is accepted even if the endpoint is limited to certain addresses", async () => {
  await webhooks.start({ endpoints: [{ path: PATH, job_id: 1, auth: "none", allow_ips: ["192.0.2.1"] }] });
  expect(await order()).toMatchObject({ status: 202, accepted: true });
});

test("the outcome of a test is the endpoint's answer, even if the endpoint is disabled", async () => {
  await openEndpoints(webhooks.redis.partitions).set(PATH, "disabled", {
    at: 1,
    by: "otto",
    reason: "it loops",
  });
  await webhooks.start({ endpoints: [{ path: PATH, job_id: 1, auth: "bearer", secret: SECRET }] });
  const outcome = await order();
  expect(outcome).toMatchObject({ status: 503, accepted: false, call_id: null });
  expect(outcome.detail).toBe("refused: Endpoint is disabled");
  expect(await webhooks.waiting()).toEqual([]);
});

test.each([
  ["a sender whose private key only it has", PATH, "which only the sender has"],
  ["a path that the gateway does not have", "/hooks/b", "does not have this endpoint"],
])("a test of %s sends nothing, and the outcome says why", async (_, path, why) => {
  const key = "302a300506032b6570032100".concat("11".repeat(32)).slice(-64);
  await webhooks.start({
    endpoints: [{ path: PATH, job_id: 1, preset: "discord-interactions", secret: key }],
  });
  const outcome = await order(path);
  expect(outcome).toMatchObject({ status: null, accepted: false, call_id: null });
  expect(outcome.detail).toContain(why);
});

test("without a gateway, the outcome says that no webhook was sent, and a gateway that starts later does not send it", async () => {
  const outcome = await createOrderTest(webhooks.redis.partition, 200)(act(PATH));
  expect(outcome).toEqual({
    ...{ status: null, accepted: false, call_id: null },
    detail: "no webhooks gateway has sent the test within 0.2 seconds",
  });
  expect(await webhooks.redis.client.exists(webhooks.redis.partition.keys.endpointTests)).toBe(0);
});
