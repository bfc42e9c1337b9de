import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { calculateJwkThumbprint, exportJWK } from "jose";
import { expect, test } from "vitest";
import { getText } from "../../../../shared/http/get-text.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { deliver, endpointFor, KEYID, NOW_SEC, PAIRS } from "./sender.ts";

const webhooks = useWebhooks();
const ends = useEnds();
const URL_OF_KEYS = "https://keys.example.com/.well-known/http-message-signatures-directory";

const jwk = await exportJWK(PAIRS.ed25519.publicKey);
const thumbprint = await calculateJwkThumbprint(jwk);
const other = await exportJWK(generateKeyPairSync("ed25519").publicKey);

/** Starts a gateway with a key directory that the test may change. */
async function withDirectory(keys: object[], directory = URL_OF_KEYS, timeoutMs?: number) {
  const state = { now: NOW_SEC, keys, fetched: 0 };
  const told = async () => {
    state.fetched += 1;
    return JSON.stringify({ keys: state.keys });
  };
  const soon = (url: string) => getText(new URL(url), { bytesMax: 100, timeoutMs: timeoutMs ?? 0 });
  const replaced = timeoutMs === undefined ? told : soon;
  const { address, log } = await webhooks.start({
    endpoints: [endpointFor({ directory }, { secret: undefined })],
    clock: () => state.now * 1000,
    ...((directory === URL_OF_KEYS || timeoutMs !== undefined) && { getText: replaced }),
  });
  const status = async (keyid: string | undefined) =>
    (await deliver(address, { parameters: { keyid } })).status;
  return { state, status, log };
}

test("a key is found by its id and by its thumbprint, with one fetch for all requests", async () => {
  const { state, status } = await withDirectory([other, { ...jwk, kid: KEYID }]);
  expect([await status(KEYID), await status(thumbprint), await status(KEYID)]).toEqual([202, 202, 202]);
  expect(state.fetched).toBe(1);
});

test("the thumbprint names a key of a directory without ids", async () => {
  const { status } = await withDirectory([other, jwk]);
  expect(await status(thumbprint)).toBe(202);
});

test("an unknown keyid is refused after a fetch, and is undecided until the next fetch may begin", async () => {
  const { state, status } = await withDirectory([jwk]);
  expect(await status("unknown")).toBe(401);
  expect(await status("unknown")).toBe(503);
  expect(await status(thumbprint)).toBe(202);
  expect(state.fetched).toBe(1);
  state.now += 60;
  expect(await status("unknown")).toBe(401);
  expect(state.fetched).toBe(2);
});

test("a key that is replaced under its id counts after the next fetch, and until then the answer is undecided", async () => {
  const { state, status } = await withDirectory([{ ...other, kid: KEYID }]);
  expect(await status(KEYID)).toBe(401);
  state.keys = [{ ...jwk, kid: KEYID }];
  expect(await status(KEYID)).toBe(503);
  state.now += 60;
  expect(await status(KEYID)).toBe(202);
  expect(state.fetched).toBe(2);
});

test("a request that has more faults than an unknown key causes no fetch", async () => {
  const { state, status } = await withDirectory([jwk]);
  state.now += 1000;
  expect(await status(thumbprint)).toBe(401);
  expect(await status(undefined)).toBe(401);
  state.now = NOW_SEC;
  expect(await status(undefined)).toBe(401);
  expect(state.fetched).toBe(0);
});

test.each([
  ["another use", { ...jwk, use: "enc" }],
  ["another algorithm", { ...jwk, alg: "ES256" }],
  ["other operations", { ...jwk, key_ops: ["sign"] }],
  ["operations that are not a list", { ...jwk, key_ops: "verify" }],
  ["an algorithm that is not text", { ...jwk, alg: 1 }],
  ["another type", { kty: "oct", k: jwk.x }],
])("a key of %s is not used", async (_what, key) => {
  const { status } = await withDirectory([other, { ...key, kid: KEYID }]);
  expect(await status(KEYID)).toBe(401);
});

async function directoryAt(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}/.well-known/http-message-signatures-directory`;
}

const answering =
  (status: number, headers: Record<string, string>, text: string): RequestListener =>
  (_req, res) => {
    res.writeHead(status, headers).end(text);
  };

test("a directory over HTTP on this machine is fetched by the gateway", async () => {
  const url = await directoryAt(answering(200, {}, JSON.stringify({ keys: [jwk] })));
  const { status } = await withDirectory([], url);
  expect(await status(thumbprint)).toBe(202);
});

test.each<[string, RequestListener, string]>([
  ["redirects", answering(302, { Location: "https://example.com/" }, ""), "status 302"],
  [
    "is too large",
    answering(200, {}, `{"keys":[],"a":"${"x".repeat(256 * 1024)}"}`),
    "the answer is longer than 262144 bytes",
  ],
  ["is not a JWK Set", answering(200, {}, "[]"), "the text is no JSON Web Key Set: an object with keys"],
  [
    "has no key for signatures",
    answering(200, {}, JSON.stringify({ keys: [{ ...jwk, use: "enc" }] })),
    "the set has no key that can verify a signature",
  ],
])("while the directory %s, requests get 503, and the reason is logged", async (_what, listener, reason) => {
  const { status, log } = await withDirectory([], await directoryAt(listener));
  expect(await status(thumbprint)).toBe(503);
  expect(log.events.find(({ event }) => event === "webhook.keys_unfetched")?.fields).toMatchObject({
    path: "/signed",
    reason,
  });
});

test("the gateway stops waiting for a directory that does not answer within the time limit", async () => {
  const { status, log } = await withDirectory([], await directoryAt(() => {}), 50);
  expect(await status(thumbprint)).toBe(503);
  expect(log.events.find(({ event }) => event === "webhook.keys_unfetched")?.fields).toMatchObject({
    reason: "no answer within 50 ms",
  });
});
