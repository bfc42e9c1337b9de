import { beforeAll, expect, test } from "vitest";
import { createResultTokens } from "../../../../shared/call/results/token.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const SECRET = "the secret of the tokens of results";
const endpoints = [
  { path: "/own", job_id: 1, auth: "none", callback_url: "https://operator.example.com/hook?a=b" },
  { path: "/clients", job_id: 1, auth: "none", callback_hosts: ["hooks.example.com", "*.example.org"] },
  {
    ...{ path: "/repeats", job_id: 1, auth: "none", idempotency_header: "X-Id" },
    callback_hosts: ["hooks.example.com"],
  },
  { path: "/none", job_id: 1, auth: "none" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;
let tokenless: TestWebhooks;
beforeAll(async () => {
  gateway = await webhooks.start({ endpoints, resultSecrets: [SECRET], mountPath: "/postern" });
  tokenless = await webhooks.start({ endpoints });
});

const post = (path: string, headers: Record<string, string> | string[] = {}, to = gateway) =>
  send(to.address, { path, headers, body: "x" });
const CALLBACK = "X-PLATFORM-CALLBACK";

test("the receiver in callback_url is notified of the endpoint's calls, and their results are kept for it", async () => {
  expect((await post("/own")).status).toBe(202);
  const call = await webhooks.onlyCall();
  const token = createResultTokens([new Secret(SECRET)]).of(call.id);
  expect(call).toMatchObject({ keep_result: true, metadata: { "X-WEBHOOK-PATH": "/own" } });
  expect(call.callback).toEqual({
    ...{ url: "https://operator.example.com/hook?a=b", receiver: "operator.example.com" },
    ...{ result_url: `/postern/webhooks/calls/${call.id}/result`, result_token: token },
  });
});

test("without a result secret, a receiver gets no token for the result", async () => {
  expect((await post("/own", {}, tokenless)).status).toBe(202);
  expect(Object.keys((await webhooks.onlyCall()).callback ?? {})).toEqual(["url", "receiver"]);
});

test("the receiver that a request names is notified of the call, and the runner does not see the receiver", async () => {
  expect((await post("/clients", { [CALLBACK]: "https://a.example.org:443/x" })).status).toBe(202);
  const call = await webhooks.onlyCall();
  expect(call.callback).toMatchObject({ url: "https://a.example.org/x", receiver: "a.example.org" });
  expect(JSON.stringify(call.metadata)).not.toContain("example.org");
});

test("a call whose request names no receiver has no callback", async () => {
  expect((await post("/clients")).status).toBe(202);
  const call = await webhooks.onlyCall();
  expect([call.callback, call.keep_result]).toEqual([undefined, undefined]);
});

test("a repeat that names another receiver is the same call, and only the first receiver is notified", async () => {
  const first = { "X-Id": "1", [CALLBACK]: "https://hooks.example.com/first" };
  const again = { "X-Id": "1", [CALLBACK]: "https://hooks.example.com/again" };
  const [{ call_id }, repeat] = [(await post("/repeats", first)).json(), await post("/repeats", again)];
  expect(repeat.json()["call_id"]).toBe(call_id);
  expect((await webhooks.onlyCall()).callback?.url).toBe("https://hooks.example.com/first");
});

test.each([
  ["a host that is not listed", "/clients", "https://evil.example.net/"],
  ["an address of the gateway's own network", "/clients", "https://169.254.169.254/latest/meta-data/"],
  ["loopback in decimal", "/clients", "https://2130706433/"],
  ["loopback in octal", "/clients", "https://0177.0.0.1/"],
  ["http", "/clients", "http://hooks.example.com/"],
  ["another port", "/clients", "https://hooks.example.com:22/"],
  ["any receiver, although the operator has configured one", "/own", "https://hooks.example.com/"],
  ["any receiver, although none is permitted", "/none", "https://hooks.example.com/"],
])("a request that names %s is refused with 403, and no call is created", async (_what, path, url) => {
  const answer = await post(path, { [CALLBACK]: url });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "callback.refused"]);
  expect(await webhooks.waiting()).toEqual([]);
});

test.each([
  ["no URL", "hooks.example.com"],
  ["nothing", ""],
  ["another scheme", "ftp://hooks.example.com/"],
  ["a user", "https://user@hooks.example.com/"],
  ["a user and another host", "https://hooks.example.com@evil.example.net/"],
  ["a fragment", "https://hooks.example.com/#a"],
])("a request whose header has %s is refused with 400, and no call is created", async (_what, url) => {
  const answer = await post("/clients", { [CALLBACK]: url });
  expect([answer.status, answer.json()["code"]]).toEqual([400, "request.malformed"]);
  expect(await webhooks.waiting()).toEqual([]);
});

test("a request that names two receivers is refused with 400", async () => {
  const url = "https://hooks.example.com/";
  const answer = await post("/clients", [CALLBACK, url, CALLBACK, url]);
  expect(answer.json()).toMatchObject({ status: 400, code: "request.malformed" });
});
