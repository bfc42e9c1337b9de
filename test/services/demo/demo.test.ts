import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { canConnect } from "../../support/http.ts";
import { notSo, PATIENCE_MS, SUM, startDemo } from "./start-demo.ts";

const redis = useRedis();
const postern = usePostern();

/** It starts before the others run, because it waits some seconds for the other producer to go. */
let inUse: ReturnType<typeof startDemo>;
beforeAll(async () => {
  await redis.client.zadd(keys.workers, Date.now() + PATIENCE_MS, "another producer");
  inUse = startDemo(postern, ["--exit"], { env: { REDIS_URL: redis.url } });
});

/** Every port of this machine that the demo named. */
function portsIn(text: string): number[] {
  return [...new Set([...text.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port)))];
}

async function listening(ports: readonly number[]): Promise<number[]> {
  const open = await Promise.all(ports.map(canConnect));
  return ports.filter((_, i) => open[i]);
}

const PAID_SUM =
  / {2}ok {2}It adds up: (\d+) payments settled = \1 charges = \1 paid jobs run; (\d+\.\d{6}) USDC paid = \2 USDC received$/m;

/** What is shown of webhooks that are signed as their senders sign them, and found to be so. */
const SENDERS_SHOWN = [
  /Slack's url_verification, before it takes the URL, is answered 200 with its challenge, and is no call$/,
  /200 {2}stripe +\/hooks\/stripe +charge\.succeeded +call c_/,
  /200 {2}slack +\/hooks\/slack +app_mention +call c_/,
  /202 {2}standard-webhooks +\/hooks\/standard +contact\.created +call c_/,
  /200 {2}alchemy +\/hooks\/alchemy +ADDRESS_ACTIVITY +call c_/,
  /202 {2}ping, which GitHub sends first, has no job and is dropped$/,
  /202 {2}github +\/hooks\/github +push +call c_/,
  /push is a call of job 1 \(echo\), release one of job 2 \(keccak256\)$/,
  /the runner has run them, with the bytes that were signed, and logs what their senders call them$/,
  /the same bytes, sent twice, are one call: c_/,
  /a request signed ten minutes ago is answered 401$/,
  /\$ postern rejected list --path \/hooks\/stripe +says why: stale: signed \d+ s before this gateway.s clock, past_secs is 300$/,
  /\$ postern rejected show r_[0-9a-f]{19} +came: stripe-signature, wanted: stripe-signature$/,
];

/** What is shown of a callback, and found to be so. */
const TOLD_SHOWN = [
  /the stream tells how far the job is, and ends when its result is kept$/,
  /the standardwebhooks library verifies what the receiver gets: the job has ended$/,
  /with it comes the job's output: \{"steps":3,"ms":\d+\}$/,
  /of other bytes the library says that they are not signed$/,
  /a request that would have the cloud's metadata called is answered 403 callback\.refused, and runs nothing$/,
];

/** What the operator's console shows at the end. */
const CONSOLE_SHOWN = [
  /http:\/\/127\.0\.0\.1:\d+\/ is a page$/,
  /its processes, all of one version: operator, pricing, producer, runner, webhooks, x402$/,
  /no call has failed for good: what failed was replayed$/,
  /GET \/api\/v1\/calls\?payer=0x\w{40} finds call c_\w+…$/,
];

/** What is shown of payments, and found to be so. */
const PAID_SHOWN = [
  /GET \S+\/price: 20000000000000 wei, at 3200 USDC for 10\^18 wei 0\.064000 USDC$/,
  /it is answered 200 with the job's output: \{"keccak256":"0x[0-9a-f]{64}"\}$/,
  /PAYMENT-RESPONSE names the transaction that the chain has: 0x[0-9a-f]{64}$/,
  /X-PAYMENT-RESPONSE names the transaction that the chain has: 0x[0-9a-f]{64}$/,
  /all 5 answers are equal, byte for byte, but for the way to the result$/,
  /one of them alone gives that, since anybody may repeat a payment$/,
  /the client, who has sent it once, is answered 202 with the call's status URL, not 402/,
  /the same payment, sent again, is answered 202 as a repeat$/,
  /the gateway is killed by SIGKILL, and the client has no answer$/,
  /the payer is charged; queue and runner know nothing of it$/,
  /a good payment of another's is answered 403 caller\.not_permitted$/,
  /the payer has every token still, and the runner no such call$/,
  /a good payment for \{"steps":0\} is answered 422 request\.input_invalid: #\/steps must be >= 1$/,
  /after a proof of work of 14 bits it quotes 10000000000000 wei, signed by its operator 0x[0-9a-f]{40}$/,
  /the quote can be settled off chain: 0\.032000 USDC on eip155:84532, at \/x402\/jobs\/7\/1$/,
  /paid with X-PLATFORM-QUOTE it is answered 202, and the job carries the quote's digest 0x[0-9a-f]{64}$/,
  /another payment by the same quote is answered 409 quote\.used, and not charged$/,
];

test("a demo with --exit shows what is so, its counts add up, and nothing of it is left", {
  timeout: PATIENCE_MS,
}, async () => {
  const { demo, text } = startDemo(postern, ["--exit"]);
  const exit = await demo.exit;
  expect(notSo(text())).toEqual([]);
  expect(exit, text()).toEqual({ code: 0, signal: null });
  expect(text()).toMatch(new RegExp(` {2}ok {2}It adds up: ${SUM.source}`));
  const [, accepted, injected] = SUM.exec(text()) ?? [];
  expect(Number(accepted)).toBe(Number(injected));
  for (const shown of [...SENDERS_SHOWN, ...TOLD_SHOWN, ...PAID_SHOWN, ...CONSOLE_SHOWN])
    expect(text()).toMatch(new RegExp(`^ {2}ok {2}${shown.source}`, "m"));
  expect(text()).toMatch(/^ {6}runner +\| job\.finished .* eventType=push /m);
  expect(PAID_SUM.exec(text())?.slice(1)).toEqual(["6", "0.224000"]);
  expect(text()).toMatch(/^ {6}seller +0\.000000 +0\.224000 +0\.224000$/m);
  expect(text()).toMatch(/^ {6}denied +1000000\.000000 +1000000\.000000 +0\.000000$/m);
  expect(portsIn(text()).length).toBeGreaterThan(4);
  expect(await listening(portsIn(text()))).toEqual([]);
});

test("a signal in the middle of a demo ends all of it within seconds, with exit code 1", {
  timeout: PATIENCE_MS,
}, async () => {
  const { demo, text } = startDemo(postern, []);
  await eventually("the runner is away", () => text().includes("8 times 202"), PATIENCE_MS);
  const ports = portsIn(text());
  expect((await listening(ports)).length).toBeGreaterThan(2);
  expect(await demo.kill("SIGTERM")).toEqual({ code: 1, signal: null });
  expect(await listening(ports)).toEqual([]);
});

test("a demo refuses a Redis that another producer works on, and leaves it as it is", async () => {
  const { demo, text } = inUse;
  expect(await demo.exit).toEqual({ code: 1, signal: null });
  expect(text()).toContain("The Redis of REDIS_URL is in use");
  expect(await redis.client.keys("*")).toEqual([keys.workers]);
});
