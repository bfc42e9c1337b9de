import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createOpenedEndpoints } from "../../../../shared/gateway/opened-endpoints.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../../support/http.ts";

const endpoints = [
  { path: "/elsewhere", job_id: 1, auth: "none", allow_ips: ["203.0.113.0/24", "2001:db8::/32"] },
  { path: "/here", job_id: 1, auth: "none", allow_ips: ["127.0.0.0/8"] },
  { path: "/asana", job_id: 1, preset: "asana" },
];
const SECRET = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";

const webhooks = useWebhooks();
let gateway: TestWebhooks;
let proxied: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
  proxied = await webhooks.start({ endpoints, http: { trustedProxies: ["127.0.0.1"] } });
});

test("a webhook from an address outside allow_ips is refused with 403, before its credential is looked at", async () => {
  const answer = await send(gateway.address, { path: "/elsewhere", body: "x" });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "request.address_refused"]);
  expect(gateway.log.events.at(-1)).toMatchObject({
    event: "webhook.refused",
    fields: { address: "127.0.0.1" },
  });
  expect((await send(gateway.address, { path: "/here", body: "x" })).status).toBe(202);
});

test("a webhook counts for the address that a trusted proxy names, and a stranger's word for none", async () => {
  const to = (address: string, forwarded: string) =>
    send(address, { path: "/elsewhere", headers: { "X-Forwarded-For": forwarded }, body: "x" });
  expect((await to(gateway.address, "203.0.113.9")).status).toBe(403);
  expect((await to(proxied.address, "203.0.113.9")).status).toBe(202);
  expect((await to(proxied.address, "203.0.113.9, 198.51.100.1")).status).toBe(403);
});

test("fillers between a client's X-Forwarded-For and the proxy's own line do not hide the proxy's", async () => {
  const head = [
    ...["POST /elsewhere HTTP/1.1", "Host: x", "X-Forwarded-For: 203.0.113.9"],
    ...Array.from({ length: 2100 }, () => "a:"),
    ...["X-Forwarded-For: 198.51.100.1", "Connection: close", "Content-Length: 1"],
  ];
  expect(await sendRaw(proxied.address, `${head.join("\r\n")}\r\n\r\nx`)).toMatch(/^HTTP\/1\.1 403 /);
});

const handshake = (secret = SECRET) =>
  send(gateway.address, { path: "/asana", headers: { "X-Hook-Secret": secret }, body: "{}" });

test("a secret in a handshake is refused with 403 unless the operator has opened the endpoint, and then taken once", async () => {
  expect((await handshake()).json()).toMatchObject({ status: 403, code: "webhook.handshake_refused" });

  const opened = await createOpenedEndpoints(webhooks.redis.partition).open("/asana", "a test", 60_000);
  const answer = await eventually("the gateway sees that it is open", async () => {
    const answer = await handshake();
    return answer.status === 403 ? undefined : answer;
  });
  expect([answer.status, answer.headers["x-hook-secret"]]).toEqual([200, SECRET]);
  expect((await handshake("another secret of another sender")).status).toBe(403);
  expect(await opened.look()).toMatchObject({ kind: "secret", secret: SECRET, address: "127.0.0.1" });
  await eventually("the gateway sees that it is closed", async () => (await handshake()).status === 403);
  expect(await webhooks.waiting()).toEqual([]);
});

test("an endpoint that has no secret yet takes no delivery", async () => {
  const headers = { "X-Hook-Signature": "0".repeat(64) };
  expect((await send(gateway.address, { path: "/asana", headers, body: "{}" })).status).toBe(401);
});
