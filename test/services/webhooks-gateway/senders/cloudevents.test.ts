import { CloudEvent, HTTP } from "cloudevents";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  const own = { job_id: 1, preset: "cloudevents", secret: "a secret of one's own" };
  gateway = await webhooks.start({
    endpoints: [
      { ...own, path: "/events" },
      { ...own, path: "/by-url", auth: "token", token_query: "access_token" },
    ],
  });
});

const EVENT = new CloudEvent({
  id: "1",
  source: "https://shop.example.com/orders",
  type: "com.example.order",
  subject: "o-1",
  data: { order: 1 },
});

type Message = ReturnType<typeof HTTP.binary>;

function post({ headers, body }: Message, path = "/events", token = "a secret of one's own") {
  const authorization = path === "/events" ? { authorization: `Bearer ${token}` } : {};
  return send(gateway.address, {
    path,
    headers: { ...(headers as Record<string, string>), ...authorization },
    body: String(body),
  });
}

const withId = (id: string) => EVENT.cloneWith({ id });

test.each([
  ["binary", HTTP.binary(withId("b-1")), "b-1 https://shop.example.com/orders"],
  ["structured", HTTP.structured(withId("s-1")), "s-1 https://shop.example.com/orders"],
])(
  "an event of the CloudEvents SDK in %s mode becomes a call under its id and source",
  async (_mode, message, id) => {
    expect((await post(message)).status).toBe(202);
    const { metadata } = await webhooks.onlyCall();
    expect(metadata).toMatchObject({
      "X-WEBHOOK-DELIVERY-ID": id,
      "X-WEBHOOK-EVENT": "com.example.order",
    });
    expect((await post(message)).headers["idempotent-replayed"]).toBe("true");
  },
);

/** Encodes header values as the HTTP protocol binding (section 3.1.3.2) requires. The SDK does not do it. */
const encoded = (message: Message): Message => ({
  ...message,
  headers: { ...message.headers, "ce-id": encodeURIComponent("Zoë 100%") },
});

test("an id with characters beyond ASCII is the same in both modes", async () => {
  await post(encoded(HTTP.binary(EVENT)));
  await webhooks.onlyCall();
  const conflict = await post(HTTP.structured(withId("Zoë 100%")));
  expect(conflict.json()).toMatchObject({ code: "call.conflict" });
});

test("a batch of events is one call whose delivery id has all their ids", async () => {
  const batch = [withId("1"), withId("2")].map((event) => event.toJSON());
  const headers = { "content-type": "application/cloudevents-batch+json" };
  expect((await post({ headers, body: JSON.stringify(batch) } as unknown as Message)).status).toBe(202);
  const { metadata } = await webhooks.onlyCall();
  expect(metadata["X-WEBHOOK-DELIVERY-ID"]).toBe(
    "1,2 https://shop.example.com/orders,https://shop.example.com/orders",
  );
});

test("the attributes of the binary mode reach the runner", async () => {
  await post(HTTP.binary(withId("b-2")));
  const { metadata, body } = await webhooks.onlyCall();
  expect(metadata).toMatchObject({ "ce-subject": "o-1", "ce-source": "https://shop.example.com/orders" });
  expect(JSON.parse(Buffer.from(body, "base64").toString())).toEqual({ order: 1 });
});

test("the secret in the URL is a credential if the endpoint is configured so", async () => {
  const message = HTTP.binary(withId("u-1"));
  const at = (token: string) => post(message, `/by-url?access_token=${encodeURIComponent(token)}`);
  expect((await at("wrong")).status).toBe(401);
  expect((await at("a secret of one's own")).status).toBe(202);
  await webhooks.onlyCall();
});

test.each([
  ["a wrong token", post.bind(undefined, HTTP.binary(withId("x-1")), "/events", "wrong"), 401],
  [
    "two ids",
    () =>
      send(gateway.address, {
        path: "/events",
        headers: [
          ...["Authorization", "Bearer a secret of one's own", "ce-source", "/a", "ce-type", "t"],
          ...["ce-id", "1", "ce-id", "2"],
        ],
        body: "{}",
      }),
    400,
  ],
])("an event with %s is refused", async (_what, ask, status) => {
  expect((await ask()).status).toBe(status);
  expect(await webhooks.waiting()).toEqual([]);
});
