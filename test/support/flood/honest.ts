// Runs honest clients. After a start signal, each makes one purchase after another. Usage: node … PLAN
import { Agent, request } from "node:http";
import type { Hex } from "../../../services/dev/chain/chain.ts";
import { createSigner } from "../../../shared/chain/signatures.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { askForQuote } from "../../../shared/pricing/job-quote.ts";
import { createPay, requiredIn } from "./payments.ts";
import { type HonestFigures, type HonestPlan, JOB_PATH, printEvent, readPlan } from "./plans.ts";

/** Timeout of a client for each answer. */
const DEADLINE_MS = 15_000;

const plan = readPlan<HonestPlan>();
const { address, durationMs, keys, from, forwardedFor, difficulty } = plan;
const figures: HonestFigures = { asked: 0, served: 0, ms: [], refusals: {} };

type Client = { key: Hex; agent: Agent; localAddress: string; proxied: Record<string, string> };
type Reply = { status: number; headers: Record<string, string | string[] | undefined>; text: string };

function send(client: Client, path: string, headers: Record<string, string>, body: string): Promise<Reply> {
  const { agent, localAddress, proxied } = client;
  return new Promise((resolve, reject) => {
    const options = {
      method: "POST",
      agent,
      localAddress,
      signal: AbortSignal.timeout(DEADLINE_MS),
      headers: { ...proxied, ...headers, "Content-Length": Buffer.byteLength(body) },
    };
    const req = request(`http://${address}${path}`, options, (res) => {
      let text = "";
      res.setEncoding("utf8");
      res.on("data", (chunk: string) => {
        text += chunk;
      });
      res.on("error", reject);
      res.on("end", () => resolve({ status: res.statusCode ?? 0, headers: res.headers, text }));
    });
    req.on("error", reject);
    req.end(body);
  });
}

type Send = (path: string, headers: Record<string, string>, body: string) => Promise<Reply>;

/**
 * Returns a function that sends one purchase's requests. In each purchase the client retries at most once, and only if
 * Retry-After is within `DEADLINE_MS`.
 */
function createSend(client: Client): Send {
  let mayRetry = true;
  return async function sendOrComeAgain(...request) {
    const reply = await send(client, ...request);
    const afterMs = Number(reply.headers["retry-after"]) * 1000;
    const isRetryRequested = (reply.status === 429 || reply.status === 503) && afterMs <= DEADLINE_MS;
    if (!isRetryRequested || !mayRetry) return reply;
    mayRetry = false;
    await delay(afterMs);
    return send(client, ...request);
  };
}

const BODY = JSON.stringify({ buy: "a job", text: "x".repeat(200) });

type PurchaseOutcome = { reply: Reply; isServed: boolean };

const WANTS: Record<HonestPlan["wants"], (key: Hex, send: Send) => Promise<PurchaseOutcome>> = {
  async pay(key, send) {
    const challenge = await send(JOB_PATH, {}, "");
    if (challenge.status !== 402) return { reply: challenge, isServed: false };
    const payment = createPay(requiredIn(String(challenge.headers["payment-required"])))(key);
    const reply = await send(JOB_PATH, { "PAYMENT-SIGNATURE": payment }, BODY);
    return { reply, isServed: reply.status === 202 };
  },
  async quote(key, send) {
    const requester = createSigner(key).address;
    const wanted = { serviceId: 1, jobIndex: 7, requester, inputs: Buffer.from(BODY), difficulty };
    const { path, body } = askForQuote(wanted, { clock: systemClock });
    const reply = await send(path, { "Content-Type": "application/json" }, body);
    return { reply, isServed: reply.status === 200 };
  },
};

function refused(what: string): void {
  figures.refusals[what] = (figures.refusals[what] ?? 0) + 1;
}

async function buyOnce(client: Client): Promise<void> {
  const startedAt = performance.now();
  figures.asked += 1;
  try {
    const { reply, isServed } = await WANTS[plan.wants](client.key, createSend(client));
    if (!isServed) {
      refused(`${reply.status} ${/"code":"([^"]+)"/.exec(reply.text)?.[1] ?? ""}`);
      return;
    }
    figures.served += 1;
    figures.ms.push(performance.now() - startedAt);
  } catch (error) {
    refused((error as NodeJS.ErrnoException).code ?? String(error));
  }
}

async function buyFor(client: Client): Promise<void> {
  const until = performance.now() + durationMs;
  while (performance.now() < until) await buyOnce(client);
  client.agent.destroy();
}

function toClient(key: Hex, i: number): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const localAddress = from[i % from.length] as string;
  const forwarded = forwardedFor?.[i % forwardedFor.length];
  const proxied: Record<string, string> = forwarded === undefined ? {} : { "X-Forwarded-For": forwarded };
  return { key, agent, localAddress, proxied };
}

setInterval(() => {}, 60_000); // a signal handler alone does not keep a process alive
process.once("SIGUSR2", async () => {
  await Promise.all(keys.map((key, i) => buyFor(toClient(key, i))));
  printEvent("honest.ended", figures);
  process.exit(0);
});
printEvent("honest.ready");
