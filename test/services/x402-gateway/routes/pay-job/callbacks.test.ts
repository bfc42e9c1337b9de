import { expect, test } from "vitest";
import { createResultTokens } from "../../../../../shared/call/results/token.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { Secret } from "../../../../../shared/platform/crypto/secret.ts";
import { partitionOf } from "../../../../../shared/redis/partition.ts";
import { JOB_PATH, PRICE, PUBLIC_URL, signOffer, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { addCallbacks } from "../../../../support/callback-queues.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { send } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";

const fixture = useX402();
const CALLBACK = "X-PLATFORM-CALLBACK";
const HOSTS = { callback_hosts: ["hooks.example.com"] };
const URL_OF_CLIENT = "https://hooks.example.com/bought?by=me";
const WITH_CALLBACK = "/x402/jobs/1/8";
const UNKEPT = "/x402/jobs/1/9";
const options = {
  x402: HOSTS,
  prices: {
    "7": "1000000000000000",
    "8": { price_wei: "1000000000000000", callback_url: "https://operator.example.com/sold" },
    "9": { price_wei: "1000000000000000", keep_result: false },
  },
};

const paymentFor = async (x402: TestX402, path: string) =>
  signOffer(await x402.post({}, { path }), { payer: fixture.payer });

const onlyCall = async (x402: TestX402) => {
  const calls = await x402.waiting();
  expect(calls).toHaveLength(1);
  return calls[0]!;
};

test("a paid call is reported to the receiver that its request names, with access to its result", async () => {
  const x402 = await fixture.gateway(options);
  const payment = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post({ ...payment, [CALLBACK]: URL_OF_CLIENT });
  expect(answer.status).toBe(202);
  const call = await onlyCall(x402);
  const result_token = createResultTokens([new Secret("a quote secret for these tests")]).of(call.id);
  expect(answer.json()).toMatchObject({ call_id: call.id, result_token });
  expect(call.callback).toEqual({
    ...{ url: URL_OF_CLIENT, receiver: "hooks.example.com" },
    ...{ result_url: `${PUBLIC_URL}/x402/calls/${call.id}/result`, result_token },
  });
  expect(JSON.stringify(call.metadata)).not.toContain("hooks.example.com");
});

test("a call of a job with callback_url is reported to that receiver, without access to a result if the job keeps none", async () => {
  const x402 = await fixture.gateway(options);
  const payFor = async (path: string, headers = {}) =>
    x402.post({ ...(await paymentFor(x402, path)), ...headers }, { path });
  expect((await payFor(WITH_CALLBACK)).status).toBe(202);
  expect((await onlyCall(x402)).callback).toMatchObject({ url: "https://operator.example.com/sold" });
  expect((await payFor(UNKEPT, { [CALLBACK]: URL_OF_CLIENT })).status).toBe(202);
  const told = (await x402.waiting()).map(({ callback }) => callback);
  expect(told).toContainEqual({ url: URL_OF_CLIENT, receiver: "hooks.example.com" });
});

const REFUSED: readonly [string, string, string, number, string][] = [
  ["a host that is not listed", JOB_PATH, "https://evil.example.net/", 403, "callback.refused"],
  ["no URL", JOB_PATH, "hooks.example.com", 400, "request.malformed"],
  ["an address of the gateway's own network", JOB_PATH, "https://169.254.169.254/", 403, "callback.refused"],
  ["loopback in decimal", JOB_PATH, "https://2130706433/", 403, "callback.refused"],
  ["http", JOB_PATH, "http://hooks.example.com/", 403, "callback.refused"],
  ["a receiver for a job with callback_url", WITH_CALLBACK, URL_OF_CLIENT, 403, "callback.refused"],
  [
    "a user and another host",
    JOB_PATH,
    "https://hooks.example.com@evil.example.net/",
    400,
    "request.malformed",
  ],
  ["another scheme", JOB_PATH, "file:///etc/passwd", 400, "request.malformed"],
];
test.each(sample(REFUSED, 3))(
  "a request that names %s is refused before money moves and before a payment is asked for",
  async (_what, path, url, status, code) => {
    const x402 = await fixture.gateway(options);
    const payment = await paymentFor(x402, path);
    for (const headers of [{ ...payment, [CALLBACK]: url }, { [CALLBACK]: url }]) {
      const answer = await x402.post(headers, { path });
      expect([answer.status, answer.json()["code"]]).toEqual([status, code]);
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    const dry = await x402.post({ ...payment, [CALLBACK]: url }, { path: `${path}/auth-dry-run` });
    expect([dry.status, dry.json()["code"]]).toEqual([status, code]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await x402.waiting()).toEqual([]);
  },
);

test("without callback_hosts no request may name a receiver", async () => {
  const x402 = await fixture.gateway({});
  const payment = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post({ ...payment, [CALLBACK]: URL_OF_CLIENT });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "callback.refused"]);
});

onlyInLongRun(() => {
  test("a payment that is sent again with another receiver or none gets its first answer, and the first receiver stays", async () => {
    const x402 = await fixture.gateway(options);
    const payment = await x402.pay({ payer: fixture.payer });
    const first = (await x402.post({ ...payment, [CALLBACK]: URL_OF_CLIENT })).json();
    for (const headers of [
      {},
      { [CALLBACK]: "https://hooks.example.com/an-observer's" },
      { [CALLBACK]: "https://evil.example.net/" },
    ]) {
      const again = await x402.post({ ...payment, ...headers });
      expect([again.status, again.json()["call_id"]]).toEqual([202, first["call_id"]]);
      expect(again.json()["result_token"]).toBeUndefined();
    }
    expect((await onlyCall(x402)).callback?.url).toBe(URL_OF_CLIENT);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("the claim stores the receiver, which also gets the report of a payment that the reconciler finishes", async () => {
    const x402 = await fixture.gateway({ ...options, x402: { ...HOSTS, settle_timeout_secs: 1 } });
    const payment = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", times: 1, kind: "drop" });
    const answer = await x402.post({ ...payment, [CALLBACK]: URL_OF_CLIENT });
    expect(answer.json()["code"]).toBe("payment.outcome_unknown");
    x402.skip(3000);
    await eventually("the job is queued", async () => (await x402.waiting()).length === 1);
    expect((await onlyCall(x402)).callback?.url).toBe(URL_OF_CLIENT);
  });

  test("a payer may name a limited number of receivers by wildcards: one more is refused before money moves, and a dry-run does not count", async () => {
    const x402 = await fixture.gateway({
      x402: { callback_hosts: ["hooks.example.com", "*.example.org"] },
      limits: { callback_receivers_max: 1 },
    });
    const buy = async (url: string, payer = fixture.payer, path = JOB_PATH) =>
      x402.post({ ...(await x402.pay({ payer })), [CALLBACK]: url }, { path });
    const other = await newPayer(fixture.devnet);
    const dryRun = `${JOB_PATH}/auth-dry-run`;
    expect((await buy("https://tried.example.org/", fixture.payer, dryRun)).status).toBe(200);
    expect((await buy("https://a.example.org/")).status).toBe(202);
    const refused = await buy("https://b.example.org/");
    expect([refused.status, refused.json()["code"]]).toEqual([503, "queue.overloaded"]);
    expect((await buy("https://a.example.org/again")).status).toBe(202);
    expect((await buy(URL_OF_CLIENT)).status).toBe(202);
    expect((await buy("https://b.example.org/", other)).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
  });
});

test("a receiver with too many callbacks is refused before the gateway asks for a payment, and other receivers are accepted", async () => {
  const x402 = await fixture.gateway({ x402: HOSTS, limits: { queue_bytes_max: 8 * 2 ** 20 } });
  const crowd = Array.from({ length: 300 }, () => "hooks.example.com");
  await addCallbacks(partitionOf(x402.redis), crowd, "x".repeat(1024));
  const refused = await eventually("it is seen", async () => {
    const answer = await x402.post({ [CALLBACK]: URL_OF_CLIENT });
    return answer.status === 402 ? undefined : answer;
  });
  expect([refused.status, refused.json()["code"]]).toEqual([503, "queue.overloaded"]);
  expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(202);
});

test("a page of any origin may name a receiver", async () => {
  const x402 = await fixture.gateway(options);
  const headers = { Origin: "https://a.example", "Access-Control-Request-Method": "POST" };
  const answer = await send(x402.address, { method: "OPTIONS", path: JOB_PATH, headers });
  expect(answer.headers["access-control-allow-headers"]).toContain(CALLBACK);
});
