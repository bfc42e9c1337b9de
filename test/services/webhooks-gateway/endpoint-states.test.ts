import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const webhooks = useWebhooks();
const PATH = "/hooks/a";
const SECRET = "a secret that only the sender and we know";
const options = {
  endpoints: [
    { path: PATH, job_id: 1, auth: "bearer", secret: SECRET, delivery_id: "{header:X-Id}" },
    { path: "/hooks/b", job_id: 1, auth: "none" },
  ],
};
const why = { at: 1, by: "otto", reason: "its job is broken" };
const set = (state: "enabled" | "disabled" | "held") =>
  openEndpoints(webhooks.redis.partitions).set(PATH, state, why);
const deliver = (address: string, headers: Record<string, string> = {}) =>
  send(address, {
    path: PATH,
    headers: { Authorization: `Bearer ${SECRET}`, ...headers },
    body: "{}",
  });
const codeOf = async (address: string, secret = SECRET) => {
  const answer = await deliver(address, { Authorization: `Bearer ${secret}` });
  return answer.status === 202 ? "202" : answer.json()["code"];
};

test("all gateways refuse the webhooks of a disabled endpoint within 2 seconds, and other endpoints are not affected", async () => {
  const gateways = [await webhooks.start(options), await webhooks.start(options)];
  await set("disabled");
  const since = performance.now();
  for (const { address } of gateways)
    await eventually("it is refused", async () => (await codeOf(address)) === "webhook.endpoint_disabled");
  expect(performance.now() - since).toBeLessThan(2000);
  const [{ address } = { address: "" }] = gateways;
  const refused = await deliver(address);
  expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "60"]);
  expect((await send(address, { path: "/hooks/b", body: "x" })).status).toBe(202);
  const list = createRejectedList(webhooks.redis.partition);
  await eventually("each is listed", async () => (await list.matching({ path: PATH }, 1)).count >= 3);
  const [entry] = (await list.matching({ path: PATH }, 1)).newest;
  expect(entry).toMatchObject({
    code: "webhook.endpoint_disabled",
    reason: `an operator has disabled ${PATH}`,
  });
});

test("a gateway that starts reads the disabled endpoints before it accepts its first webhook", async () => {
  await set("disabled");
  const { address } = await webhooks.start(options);
  expect(await codeOf(address)).toBe("webhook.endpoint_disabled");
  expect(await webhooks.waiting()).toEqual([]);
});

test("a request without the credential does not reveal the state that operators gave the endpoint", async () => {
  const { address } = await webhooks.start(options);
  const before = await deliver(address, { Authorization: "Bearer wrong" });
  await set("disabled");
  await eventually("it is disabled", async () => (await codeOf(address)) === "webhook.endpoint_disabled");
  const after = await deliver(address, { Authorization: "Bearer wrong" });
  expect([after.status, after.text]).toEqual([before.status, before.text]);
});

test("a held endpoint answers 202, keeps the call, and delivers it only once the endpoint is enabled", async () => {
  await set("held");
  const { address } = await webhooks.start(options);
  const first = await deliver(address, { "X-Id": "1" });
  const again = await deliver(address, { "X-Id": "1" });
  expect([first.status, again.status, again.headers["idempotent-replayed"]]).toEqual([202, 202, "true"]);
  expect(again.json()["call_id"]).toBe(first.json()["call_id"]);
  expect(await webhooks.waiting()).toEqual([]);
  await set("enabled");
  expect((await webhooks.onlyCall()).id).toBe(first.json()["call_id"]);
});
