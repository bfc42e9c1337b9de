import { createPublicKey, type JsonWebKey, verify } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { useFakeRunner } from "../../../fixtures/fake-runner.ts";
import { aCall, TEST_CALLBACKS, useProducer } from "../../../fixtures/producer.ts";
import {
  CALLBACK_SECRET,
  ownSecretAt,
  type Received,
  type TestReceiver,
  useReceivers,
} from "../../../fixtures/receivers.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const producers = useProducer();
const webhooks = useWebhooks({ redis: producers.redis });
const runner = useFakeRunner();
const startReceiver = useReceivers();

const NEXT = `whsec_${Buffer.alloc(32, "next").toString("base64")}`;

async function callbackTo(receiver: TestReceiver, secrets = [CALLBACK_SECRET]): Promise<Received> {
  await producers.add(aCall({ callback: receiver.target }));
  const callbacks = { ...TEST_CALLBACKS, secret: secrets.map((secret) => new Secret(secret)) };
  producers.start({ runnerUrl: runner.url, callbacks });
  return receiver.got();
}

const verifies = (secret: string, { body, headers }: Received) => {
  try {
    return Boolean(new Webhook(secret).verify(body, headers));
  } catch {
    return false;
  }
};

/** Reads the public keys from the gateway, like a receiver that knows only the gateway's URL. */
async function keysOfGateway(count: number): Promise<JsonWebKey[]> {
  const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  return eventually("the public keys are published", async () => {
    const answer = await send(gateway.address, { method: "GET", path: "/.well-known/callback-keys.json" });
    expect([answer.status, answer.headers["content-type"]]).toEqual([
      200,
      expect.stringContaining("jwk-set+json"),
    ]);
    const keys = answer.json()["keys"] as JsonWebKey[];
    return keys.length === count ? keys : undefined;
  });
}

function verifiesByKey(jwk: JsonWebKey, { body, headers }: Received): boolean {
  const key = createPublicKey({ key: jwk, format: "jwk" });
  const signed = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`);
  return String(headers["webhook-signature"])
    .split(" ")
    .filter((each) => each.startsWith("v1a,"))
    .some((each) => verify(null, signed, key, Buffer.from(each.slice("v1a,".length), "base64")));
}

test("each receiver has its own secret: neither another receiver's secret nor the configured one verifies its callbacks", async () => {
  const [receiver, other] = [await startReceiver(), await startReceiver()];
  const received = await callbackTo(receiver);
  expect(verifies(ownSecretAt(receiver.url), received)).toBe(true);
  for (const secret of [ownSecretAt(other.url), ownSecretAt(`${receiver.url}/`), CALLBACK_SECRET])
    expect(verifies(secret, received)).toBe(false);
});

test("a receiver without a secret verifies callbacks with the keys that a gateway publishes, and checks the receiver by the URL", async () => {
  const receiver = await startReceiver("/paid?by=me");
  const received = await callbackTo(receiver);
  const [key = {}] = await keysOfGateway(1);
  expect(key).toEqual({ kty: "OKP", crv: "Ed25519", x: expect.any(String), use: "sig", alg: "EdDSA" });
  expect(verifiesByKey(key, received)).toBe(true);
  expect(received.event.data["callback_url"]).toBe(receiver.url);
  for (const forged of [
    { ...received, body: received.body.replace(receiver.url, "https://other.example.com/") },
    { ...received, headers: { ...received.headers, "webhook-id": "c_another" } },
    { ...received, headers: { ...received.headers, "webhook-timestamp": "1" } },
  ])
    expect(verifiesByKey(key, forged)).toBe(false);
});

test("the old and the new secret both sign, in both ways, so that each can be rotated", async () => {
  const receiver = await startReceiver();
  const received = await callbackTo(receiver, [NEXT, CALLBACK_SECRET]);
  for (const secret of [NEXT, CALLBACK_SECRET])
    expect(verifies(ownSecretAt(receiver.url, secret), received)).toBe(true);
  const keys = await keysOfGateway(2);
  expect(keys.map((key) => verifiesByKey(key, received))).toEqual([true, true]);
});

test("a key that no producer has signed with for ten minutes is no longer published", async () => {
  const { client, partition } = producers.redis;
  const { keys } = partition;
  await callbackTo(await startReceiver());
  await eventually("it is published", () => client.exists(keys.callbackKeys));
  await client.zadd(keys.callbackKeys, String(Date.now() - 600_001), "a-key-of-yesterday");
  const published = await keysOfGateway(1);
  expect(published.map(({ x }) => x)).not.toContain("a-key-of-yesterday");
});
