import { expect, test } from "vitest";
import type { DevAccount } from "../../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { systemClock } from "../../../../../shared/platform/time/clock.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { JOB_PATH, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { codeOf } from "../../../../support/books.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { type OpenRaw, openRaw } from "../../../../support/http.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { countingNode } from "../../counting-node.ts";
import { STEPS } from "../../redis-steps.ts";

const fixture = useX402();
const ends = useEnds();
const proxy = useRedisProxy(fixture.redis);

const MIB = 1024 * 1024;
/** Timeouts for tests that hold a verification and a settlement, on a busy machine for many seconds. */
const PATIENT = { facilitator_timeout_secs: 60, settle_timeout_secs: 60 };
/** Holds a settle request until the faults are cleared. Until then, the chain shows nothing of its payment. */
const HELD_SETTLE = { on: "settle", kind: "slow", delayMs: 600_000, times: 1 } as const;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns the head of a request. It declares a body, which the client sends only after 100-continue. */
function headOf(payment: Readonly<Record<string, string>>): string {
  const [[name, value] = ["", ""]] = Object.entries(payment);
  const framing = `Content-Length: ${MIB}\r\nExpect: 100-continue`;
  return `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\n${name}: ${value}\r\n${framing}\r\n\r\n`;
}

const isBodyWanted = ({ received }: OpenRaw) => received().startsWith("HTTP/1.1 100 ");

/** Starts a gateway with a counting node. Also returns a function with the number of the node's requests since its last call. */
async function countedGateway(given: Parameters<typeof fixture.gateway>[0] = {}) {
  const node = await countingNode(fixture.devnet.rpcUrl);
  ends.defer(node.close);
  const x402 = await fixture.gateway({ ...given, token: { rpc_url: node.url } });
  let before = node.calls();
  const asked = () => {
    const now = node.calls() - before;
    before = node.calls();
    return now;
  };
  return { x402, asked };
}

/** Opens this many connections, sends the same bytes on each, and closes them after the test. */
function openMany(x402: TestX402, connections: number, bytes: string) {
  const raws = Array.from({ length: connections }, () => openRaw(x402.address, bytes));
  ends.defer(() => raws.forEach(({ socket }) => void socket.destroy()));
  return raws;
}

test("a payer without the money is refused before the facilitator is asked and before the body has arrived", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: await newPayer(fixture.devnet, 1n) });
  const [raw] = openMany(x402, 1, headOf(headers));
  await expect.poll(() => raw?.received(), { timeout: 10_000 }).toMatch(/\}$/);
  expect(raw?.received()).toMatch(/^HTTP\/1\.1 402 [\s\S]*insufficient_funds/);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

onlyInLongRun(() => {
  test("a header of a payer without money that is sent a thousand times causes only a few requests to the node", async () => {
    const { x402, asked } = await countedGateway();
    const headers = await x402.pay({ payer: await newPayer(fixture.devnet, 0n) });
    asked();
    for (let round = 0; round < 10; round++) {
      const answers = await Promise.all(Array.from({ length: 100 }, () => x402.post(headers)));
      for (const answer of answers) expect(codeOf(answer)).toBe("payment.rejected");
    }
    expect(asked()).toBeLessThan(100);
  });

  test("money that has just arrived counts, although one of the nodes behind the URL does not have it yet", async () => {
    const x402 = await fixture.gateway({ token: { rpc_url: fixture.devnet.nodeUrl } });
    const payers = await Promise.all(Array.from({ length: 12 }, () => newPayer(fixture.devnet)));
    const payments: Record<string, string>[] = [];
    for (const payer of payers) payments.push(await x402.pay({ payer }));
    await fixture.devnet.control.setNodeFaults({ lag: 40 });
    const statuses: number[] = [];
    for (const payment of payments) statuses.push((await x402.post(payment)).status);
    expect(statuses).toEqual(payments.map(() => 202));
  });
});

const FAILED_VERIFIES = [
  ["says that the request is at fault", { kind: "status", status: 422, body: "no" }],
  ["fails", { kind: "status", status: 500 }],
  ["breaks off", { kind: "drop" }],
] as const;
test.each(sample(FAILED_VERIFIES))(
  "a payer uses up verifications also by payments with which the facilitator %s",
  async (_what, fault) => {
    const x402 = await fixture.gateway({ x402: { unpaid_verifies_per_payer: 2 } });
    await fixture.devnet.control.fault({ on: "verify", ...fault });
    const codes: (string | undefined)[] = [];
    for (let each = 0; each < 3; each++)
      codes.push(codeOf(await x402.post(await x402.pay({ payer: fixture.payer }))));
    expect(codes).toEqual(["payment.unavailable", "payment.unavailable", "request.rate_limited"]);
    expect(await fixture.asked()).toEqual({ verify: 2, settle: 0 });
  },
);

test("a payment whose request the facilitator calls invalid is not sent to it again for a while", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "verify", kind: "status", status: 413, body: "no" });
  for (let round = 0; round < 3; round++)
    expect(codeOf(await x402.post(headers))).toBe("payment.unavailable");
  expect((await fixture.asked()).verify).toBe(1);
});

onlyInLongRun(() => {
  test("a payer over the limit of verifications costs the node no more than one without money", async () => {
    const { x402, asked } = await countedGateway({ x402: { unpaid_verifies_per_payer: 1 } });
    const codeFrom = async (payer: DevAccount) => codeOf(await x402.post(await x402.pay({ payer })));
    await fixture.devnet.control.fault({ on: "verify", kind: "refuse" });
    expect(await codeFrom(fixture.payer)).toBe("payment.rejected");
    const penniless = await newPayer(fixture.devnet, 0n);
    asked();
    expect(await codeFrom(penniless)).toBe("payment.rejected");
    const ofPenniless = asked();
    x402.skip(3000);
    expect(await codeFrom(fixture.payer)).toBe("request.rate_limited");
    expect(asked()).toBe(ofPenniless);
  });
});

test("a payment that the facilitator refuses is verified once, however often and on however many connections it is sent", async () => {
  const now = systemClock();
  const x402 = await fixture.gateway({ clock: () => now });
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "verify", kind: "refuse" });
  for (let round = 0; round < 2; round++) {
    const answers = await Promise.all(Array.from({ length: LONG_RUN ? 50 : 15 }, () => x402.post(headers)));
    for (const answer of answers) expect(codeOf(answer)).toBe("payment.rejected");
  }
  expect(await fixture.asked()).toEqual({ verify: 1, settle: 0 });
  await fixture.devnet.control.clearFaults();
  x402.skip(3001);
  expect((await x402.post(headers)).status).toBe(202);
});

test("a payer whose verifications lead to no payment is refused for a while, other payers are not, and a purchase uses up no verification", async () => {
  const x402 = await fixture.gateway({ x402: { unpaid_verifies_per_payer: 2 } });
  const payment = () => x402.pay({ payer: fixture.payer });
  const bought = await payment();
  for (let each = 0; each < 3; each++)
    expect((await x402.post(each === 0 ? bought : await payment())).status).toBe(202);

  await fixture.devnet.control.fault({ on: "verify", kind: "refuse" });
  for (let each = 0; each < 2; each++)
    expect(codeOf(await x402.post(await payment()))).toBe("payment.rejected");
  await fixture.devnet.control.clearFaults();
  const refused = await x402.post(await payment());
  expect([refused.status, codeOf(refused)]).toEqual([429, "request.rate_limited"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect(refused.headers["payment-required"]).toBeUndefined();
  const another = await newPayer(fixture.devnet);
  expect((await x402.post(await x402.pay({ payer: another }))).status).toBe(202);
  expect((await x402.post(bought)).headers["idempotent-replayed"]).toBe("true");

  x402.skip(Number(refused.headers["retry-after"]) * 1000);
  expect((await x402.post(await payment())).status).toBe(202);
});

test("an address whose verifications lead to no payment is refused for a while, and behind a trusted proxy each client has its own limit", async () => {
  const x402 = await fixture.gateway({
    x402: { unpaid_verifies_per_address: 2 },
    http: { trusted_proxies: ["127.0.0.1"] },
  });
  const payFrom = async (payer: DevAccount, address: string) =>
    x402.post({ ...(await x402.pay({ payer })), "X-Forwarded-For": address });
  await fixture.devnet.control.fault({ on: "verify", kind: "refuse", times: 2 });
  for (let each = 0; each < 2; each++)
    expect(codeOf(await payFrom(await newPayer(fixture.devnet), "192.0.2.1"))).toBe("payment.rejected");
  expect(codeOf(await payFrom(fixture.payer, "192.0.2.1"))).toBe("request.rate_limited");
  expect((await payFrom(fixture.payer, "192.0.2.2")).status).toBe(202);
});

onlyInLongRun(() => {
  test("a payer whose payment fails by a fault of the gateway loses no verification", async () => {
    const x402 = await fixture.gateway({
      ...{
        redisUrl: proxy.url,
        directUrl: fixture.redis.url,
        commandTimeoutMs: 1000,
        enqueueTimeoutMs: 2500,
      },
      x402: { unpaid_verifies_per_payer: 1 },
    });
    const headers = await x402.pay({ payer: fixture.payer });
    proxy.onCommand = (words) => (STEPS.claim(words) ? { kind: "lose-command" } : undefined);
    expect((await x402.post(headers)).status).toBe(503);
    proxy.onCommand = () => undefined;
    const later = await eventually("Redis is back", async () => {
      const answer = await x402.post(headers);
      return answer.status === 503 ? undefined : answer;
    });
    expect(later.status).toBe(202);
  });

  test("a payer who makes too many dry-runs is refused for a while, and may still buy", async () => {
    const x402 = await fixture.gateway({ x402: { unpaid_verifies_per_payer: 2 } });
    const headers = await x402.pay({ payer: fixture.payer });
    const tries = [1, 2, 3].map(() => () => x402.post(headers, { path: `${JOB_PATH}/auth-dry-run` }));
    const statuses: number[] = [];
    for (const tryIt of tries) statuses.push((await tryIt()).status);
    expect(statuses).toEqual([200, 200, 429]);
    expect((await x402.post(headers)).status).toBe(202);
  });

  test("1,100 payments whose bodies never arrive do not stop sales, and keep nothing in memory", async () => {
    const x402 = await fixture.gateway();
    const stalled = await x402.pay({ payer: fixture.payer });
    const raws = openMany(x402, 1100, headOf(stalled));
    await eventually("their bodies are waited for", () => raws.every(isBodyWanted));
    const headers = await x402.pay({ payer: await newPayer(fixture.devnet) });
    expect((await x402.post(headers)).status).toBe(202);
    expect(x402.gateway.bodyBytes()).toBe(0);
  });

  test("repeats of a payment get its outcome without a byte of their bodies in memory", async () => {
    const x402 = await fixture.gateway();
    const body = "x".repeat(MIB);
    const headers = await x402.pay({ payer: fixture.payer });
    expect((await x402.post(headers, { body })).status).toBe(202);
    const raws = openMany(x402, LONG_RUN ? 50 : 10, headOf(headers));
    await eventually("their bodies are waited for", () => raws.every(isBodyWanted));
    let most = 0;
    const watching = setInterval(() => {
      most = Math.max(most, x402.gateway.bodyBytes());
    });
    for (const { socket } of raws) socket.write(body);
    await eventually("all are answered", () => raws.every(({ received }) => /\}$/.test(received())));
    clearInterval(watching);
    for (const { received } of raws) expect(received()).toMatch(/HTTP\/1\.1 202 /);
    expect(most).toBe(0);
    const other = await x402.post(headers, { body: `y${body.slice(1)}` });
    expect(codeOf(other)).toBe("payment.conflict");
  });

  test("copies of a payment that are sent at once take one slot and keep one body while it settles", async () => {
    const x402 = await fixture.gateway({ x402: PATIENT });
    const body = "x".repeat(MIB);
    const headers = await x402.pay({ payer: fixture.payer });
    const another = await x402.pay({ payer: await newPayer(fixture.devnet) });
    // The verification lasts until all bodies have arrived.
    await fixture.devnet.control.fault({
      on: "verify",
      kind: "slow",
      delayMs: LONG_RUN ? 8000 : 2000,
      times: 1,
    });
    await fixture.devnet.control.fault(HELD_SETTLE);
    const raws = openMany(x402, LONG_RUN ? 100 : 10, headOf(headers));
    await eventually("their bodies are waited for", () => raws.every(isBodyWanted));
    for (const { socket } of raws) socket.write(body);
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    await eventually("one body is left", () => x402.gateway.bodyBytes() <= MIB);
    for (const { received } of raws) expect(received()).toMatch(/^HTTP\/1\.1 100 Continue\s+$/);
    expect((await x402.post(another)).status).toBe(202);
    expect((await fixture.asked()).settle).toBe(2);
    await fixture.devnet.control.clearFaults();
    await eventually("all are answered", () => raws.every(({ received }) => /\}$/.test(received())));
    for (const { received } of raws) expect(received()).toMatch(/HTTP\/1\.1 202 /);
    expect(await fixture.asked()).toEqual({ verify: 2, settle: 2 });
    expect(await x402.waiting()).toHaveLength(2);
  });

  test("of a thousand copies of a payment sent at once only a few become claims, and there is a slot for another payment", async () => {
    const x402 = await fixture.gateway({
      ...{ redisUrl: proxy.url, directUrl: fixture.redis.url },
      x402: PATIENT,
    });
    // Each claim has its own name. A claim whose reply is late is sent again under the same name.
    const claims = new Set<string | undefined>();
    proxy.onCommand = (words) => {
      if (STEPS.claim(words)) claims.add(words.find((word) => UUID.test(word)));
      return undefined;
    };
    const headers = await x402.pay({ payer: fixture.payer });
    const another = await x402.pay({ payer: await newPayer(fixture.devnet) });
    // The verification lasts until all copies wait for it.
    await fixture.devnet.control.fault({ on: "verify", kind: "slow", delayMs: 8000, times: 1 });
    await fixture.devnet.control.fault(HELD_SETTLE);
    const answers: number[] = [];
    const copies = Array.from({ length: 1100 }, async () => {
      const { status } = await x402.post(headers);
      answers.push(status);
    });
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    expect((await x402.post(another)).status).toBe(202);
    expect(answers).not.toContain(202);
    await fixture.devnet.control.clearFaults();
    await Promise.all(copies);
    // A copy that was checked just after the first claim makes a claim of its own, so there may be a few.
    expect(claims.size).toBeLessThan(20);
    expect(new Set(answers)).toEqual(new Set([202, 503]));
    expect(await x402.waiting()).toHaveLength(2);
  });

  test("the journal is read as often for many waiting repeats as for one", async () => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 5 } });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 2000, times: 1 });
    const first = x402.post(headers);
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    const scripts = async () => {
      const stats = await x402.redis.info("commandstats");
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]);
    };
    const before = await scripts();
    const repeats = await Promise.all(Array.from({ length: 100 }, () => x402.post(headers)));
    for (const { status } of [...repeats, await first]) expect(status).toBe(202);
    expect((await scripts()) - before).toBeLessThan(600);
  });
});
