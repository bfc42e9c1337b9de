// Honest clients, each buys one thing after the other once it is told to begin: node … PLAN
import { Agent, request } from "node:http";
import type { Hex } from "../../../services/devnet/chain.ts";
import { createSigner } from "../../../shared/ethereum/signatures.ts";
import { askForQuote } from "../../../shared/pricing/job-quote.ts";
import { delay, systemClock } from "../../../shared/time/clock.ts";
import { createPay, requiredIn } from "./payments.ts";
import { type HonestFigures, type HonestPlan, JOB_PATH, readPlan, tell } from "./plans.ts";

/** How long a client waits for each answer. */
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

/** Comes again once, when it is told to. */
async function insist(...request: Parameters<typeof send>): Promise<Reply> {
  const reply = await send(...request);
  const after = Number(reply.headers["retry-after"]);
  if ((reply.status !== 429 && reply.status !== 503) || !(after > 0)) return reply;
  await delay(after * 1000);
  return send(...request);
}

const BODY = JSON.stringify({ buy: "a job", text: "x".repeat(200) });

const WANTS: Record<HonestPlan["wants"], (client: Client) => Promise<{ reply: Reply; isServed: boolean }>> = {
  async pay(client) {
    const challenge = await insist(client, JOB_PATH, {}, "");
    if (challenge.status !== 402) return { reply: challenge, isServed: false };
    const payment = createPay(requiredIn(String(challenge.headers["payment-required"])))(client.key);
    const reply = await insist(client, JOB_PATH, { "PAYMENT-SIGNATURE": payment }, BODY);
    return { reply, isServed: reply.status === 202 };
  },
  async quote(client) {
    const requester = createSigner(client.key).address;
    const wanted = { serviceId: 1, jobIndex: 7, requester, inputs: Buffer.from(BODY), difficulty };
    const { path, body } = askForQuote(wanted, { clock: systemClock });
    const reply = await insist(client, path, { "Content-Type": "application/json" }, body);
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
    const { reply, isServed } = await WANTS[plan.wants](client);
    if (!isServed) {
      refused(`${reply.status} ${/"code":"([^"]+)"/.exec(reply.text)?.[1] ?? ""}`);
      return;
    }
    figures.served += 1;
    figures.ms.push(performance.now() - startedAt);
  } catch (error) {
    refused(error instanceof Error ? error.name + ((error as NodeJS.ErrnoException).code ?? "") : "?");
  }
}

async function buyFor(client: Client): Promise<void> {
  const until = performance.now() + durationMs;
  while (performance.now() < until) await buyOnce(client);
  client.agent.destroy();
}

process.once("SIGUSR2", async () => {
  await Promise.all(
    keys.map((key, i) =>
      buyFor({
        key,
        agent: new Agent({ keepAlive: true, maxSockets: 1 }),
        localAddress: from[i % from.length] as string,
        proxied:
          forwardedFor === undefined
            ? {}
            : { "X-Forwarded-For": forwardedFor[i % forwardedFor.length] as string },
      }),
    ),
  );
  tell("honest.ended", figures);
  process.exit(0);
});
const waiting = setInterval(() => {}, 60_000);
process.once("SIGUSR2", () => clearInterval(waiting));
tell("honest.ready");
