import { createHmac } from "node:crypto";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const SECRET = "whsec_a secret that only the sender and we know";
let now = Date.parse("2026-11-22T12:00:00Z");
const endpoints = [
  { path: "/stripe", preset: "stripe", job_id: 1, secret: SECRET },
  { path: "/alchemy", preset: "alchemy", job_id: 1, secret: SECRET },
  {
    ...{ path: "/coded", auth: "hmac-sha256", job_id: 1, secret: SECRET },
    ...{ delivery_id: "{body:/id}", encoded_bodies: "decode" },
  },
  { path: "/github", preset: "github", job_id: 1, secret: SECRET },
  {
    ...{ path: "/two-names", auth: "signature", job_id: 1, secret: SECRET },
    delivery_id: "{header:X-Id|X-Other-Id}",
    signature: {
      ...{ header: "X-Signature", encoding: "hex", algorithm: "hmac-sha256" },
      signed: "{header:X-Id|X-Old-Id}.{body}",
    },
  },
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

test("if id and time are signed, a delivery is one call, no matter how often and to which replica it is sent", async () => {
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

test.each([
  ["gzip", gzipSync, ["", "deflate", "br"]],
  ["br", brotliCompressSync, ["", "gzip", "deflate"]],
  ["", (text: string) => Buffer.from(text), ["gzip", "deflate", "br"]],
] as const)(
  "a delivery with the coding %j makes no second call if its coding is removed or changed, because its signature does not cover the coding",
  async (coding, encode, others) => {
    const body = encode('{"id":"evt_1"}');
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const statusWith = async (encoding: string) => {
      const headers = { "X-Signature-256": signature, ...(encoding && { "Content-Encoding": encoding }) };
      return (await send(first.address, { path: "/coded", headers, body })).status;
    };
    expect(await statusWith(coding)).toBe(202);
    for (const other of others) expect([other, await statusWith(other)]).toEqual([other, 400]);
    await webhooks.onlyCall();
  },
);

test("a sender's retry with a new signature and another counter in the body is the same call, and no conflict", async () => {
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

test("if the id is signed but not the time, a delivery is one call for as long as its id is remembered", async () => {
  const body = '{"id":"whevt_1","type":"ADDRESS_ACTIVITY"}';
  const recorded = { path: "/alchemy", headers: { "X-Alchemy-Signature": mac(body) }, body };
  await send(first.address, recorded);
  now += 86_400_000;
  expect((await send(second.address, recorded)).headers["idempotent-replayed"]).toBe("true");
});

test("if the id is not signed, a stranger who sends a recorded body with another id makes another call", async () => {
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

test("a stranger who moves a signed id to another header, and adds the next id unsigned, does not suppress the next delivery", async () => {
  const signed = (id: string, body: string) => ({ "X-Signature": mac(`${id}.${body}`) });
  const recorded = {
    path: "/two-names",
    headers: { ...signed("1", "first"), "X-Old-Id": "1", "X-Other-Id": "2" },
    body: "first",
  };
  expect((await send(first.address, recorded)).status).toBe(202);
  const next = {
    path: "/two-names",
    headers: { ...signed("2", "second"), "X-Id": "2" },
    body: "second",
  };
  expect((await send(first.address, next)).headers["idempotent-replayed"]).toBeUndefined();
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("a repeat after the endpoint's job was changed gets the job of the known call", async () => {
  const other = await webhooks.start({ endpoints: [{ ...endpoints[0], job_id: 2 }], clock: () => now });
  const body = '{"id":"evt_1","type":"charge.succeeded"}';
  const before = (await send(first.address, stripe(body))).json();
  const repeat = await send(other.address, stripe(body));
  expect(repeat.headers["idempotent-replayed"]).toBe("true");
  expect(repeat.json()).toEqual({ ...before, job_id: 1 });
  const fresh = await send(other.address, stripe(body.replace("evt_1", "evt_2")));
  expect(fresh.json()).toMatchObject({ job_id: 2 });
});
