import { createHmac } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const SECRET = "whsec_a secret that only the sender and we know";
let now = Date.parse("2026-11-22T12:00:00Z");
const endpoints = [
  { path: "/stripe", preset: "stripe", job_id: 1, secret: SECRET },
  { path: "/alchemy", preset: "alchemy", job_id: 1, secret: SECRET },
  { path: "/github", preset: "github", job_id: 1, secret: SECRET },
];

const webhooks = useWebhooks();
let first: TestWebhooks;
let second: TestWebhooks;

beforeAll(async () => {
  first = await webhooks.start({ endpoints, clock: () => now });
  second = await webhooks.start({ endpoints, clock: () => now });
});

const mac = (text: string) => createHmac("sha256", SECRET).update(text).digest("hex");

function stripe(body: string, at = now) {
  const t = Math.floor(at / 1000);
  return { path: "/stripe", headers: { "Stripe-Signature": `t=${t},v1=${mac(`${t}.${body}`)}` }, body };
}

test("where id and time are signed, a delivery is one call, however often and wherever it is sent again", async () => {
  const recorded = stripe('{"id":"evt_1","type":"charge.succeeded","pending_webhooks":2}');
  const answers = await Promise.all(
    [first, second, first, second].map(({ address }) => send(address, recorded)),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(new Set(answers.map((answer) => answer.json()["call_id"])).size).toBe(1);
  await webhooks.onlyCall();

  now += 301_000;
  expect((await send(second.address, recorded)).status).toBe(401);
});

test("the sender's own retry, signed anew with what it counts in the body, is the same call and no conflict", async () => {
  await send(first.address, stripe('{"id":"evt_1","type":"charge.succeeded","pending_webhooks":2}'));
  now += 60_000;
  const again = await send(
    second.address,
    stripe('{"id":"evt_1","type":"charge.succeeded","pending_webhooks":1}'),
  );
  expect([again.status, again.headers["idempotent-replayed"]]).toEqual([200, "true"]);
  await webhooks.onlyCall();
});

test.each([
  ["missing", '{"type":"a"}'],
  ["no text", '{"id":{"a":1},"type":"a"}'],
  ["a number with a point that JSON may have rounded", '{"id":9007199254740993.0,"type":"a"}'],
])("a delivery whose id is %s is a new call each time, and none is lost", async (_what, body) => {
  await send(first.address, stripe(body));
  await send(first.address, stripe(body));
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("where the id is signed and the time is not, a delivery is one call for as long as its id is remembered", async () => {
  const body = '{"id":"whevt_1","type":"ADDRESS_ACTIVITY"}';
  const recorded = { path: "/alchemy", headers: { "X-Alchemy-Signature": mac(body) }, body };
  await send(first.address, recorded);
  now += 86_400_000;
  expect((await send(second.address, recorded)).headers["idempotent-replayed"]).toBe("true");
});

test("where the id is not signed, a stranger who sends a recorded body under another id makes another call", async () => {
  const body = '{"zen":"Keep it logically awesome."}';
  const under = (id: string) => ({
    path: "/github",
    headers: { "X-Hub-Signature-256": `sha256=${mac(body)}`, "X-GitHub-Delivery": id },
    body,
  });
  await send(first.address, under("1"));
  await send(first.address, under("1"));
  await send(first.address, under("2"));
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("a repeat after the endpoint got another job is told of the job that its call is of", async () => {
  const other = await webhooks.start({ endpoints: [{ ...endpoints[0], job_id: 2 }], clock: () => now });
  const body = '{"id":"evt_1","type":"charge.succeeded"}';
  const before = (await send(first.address, stripe(body))).json();
  const repeat = await send(other.address, stripe(body));
  expect(repeat.headers["idempotent-replayed"]).toBe("true");
  expect(repeat.json()).toEqual({ ...before, job_id: 1 });
  const fresh = await send(other.address, stripe(body.replace("evt_1", "evt_2")));
  expect(fresh.json()).toMatchObject({ job_id: 2 });
});
