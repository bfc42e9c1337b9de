import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Child, spawnChild } from "../../shared/dev/child.ts";
import { devToken } from "../../shared/dev/config.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { randomNonce } from "../../shared/pricing/proof-of-work.ts";
import { blocksOf } from "../docs/blocks.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useEnds } from "../fixtures/ends.ts";
import { ENGINE } from "../fixtures/pricing.ts";
import { useRedis } from "../fixtures/redis.ts";
import { signOffer } from "../fixtures/x402.ts";
import { hex } from "../services/pricing/routes/quote/quote-request.ts";
import { COMPILER, makeConsumer } from "../support/consumer.ts";
import { newPayer } from "../support/devnet.ts";
import { type Answer, type Sent, send } from "../support/http.ts";
import { reflectedClient } from "../support/reflected.ts";
import { solve } from "../support/solve.ts";

/*
 * A user's project with the package installed. It has the recipes of docs/library.md and the runner of docs/runner.md,
 * compiled strictly. Each runs in its own process.
 */
const redis = useRedis();
const devnet = useDevnet();
const ends = useEnds();

const SECRET = "a secret of the sender and us";
const ENV = {
  PATH: process.env["PATH"],
  GITHUB_SECRET: SECRET,
  QUOTE_SECRET: "a quote secret for these tests",
  POSTERN_RUNNER_SECRET: "a secret of producer and runner",
  PRICING_KEY: `0x${"1".repeat(64)}`,
};

const recipes = new Map(
  ["docs/library.md", "docs/runner.md"]
    .flatMap(blocksOf)
    .filter(({ language, words }) => language === "ts" && words.length === 1)
    .map(({ words, text }) => [String(words[0]), text]),
);

/** Replacements for the placeholder values in the recipes. */
let places: ReadonlyMap<string, string>;
let project: string;

beforeAll(async () => {
  project = makeConsumer({ with: ["express", "fastify", "@types/express"] });
  const token = devToken(devnet);
  const ports = await Promise.all([1, 2, 3, 4, 5].map(() => freePort()));
  const [webhooks, x402, runner, grpc, http] = ports.map(String) as [string, string, string, string, string];
  places = new Map([
    ["redis://127.0.0.1:6379", redis.url],
    ...([
      ["9090", webhooks],
      ["8402", x402],
      ["8645", runner],
      ["50051", grpc],
      ["8404", http],
    ] as const),
    ["https://facilitator.example.com", devnet.facilitatorUrl],
    ["https://base.example.com", devnet.rpcUrl],
    ["eip155:8453", token.network],
    ["0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", token.asset],
    ["0x1111111111111111111111111111111111111111", token.pay_to],
    ["USD Coin", token.eip3009_name],
  ]);
  const unused = new Set(places.keys());
  for (const [name, text] of recipes) {
    const placed = [...places].reduce((now, [from, to]) => {
      if (now.includes(from)) unused.delete(from);
      return now.replaceAll(from, to);
    }, text);
    writeFileSync(join(project, name), placed);
  }
  expect([...unused]).toEqual([]);
});

const at = (port: string): string => `127.0.0.1:${places.get(port)}`;

/** Line that a recipe prints when it is ready. Its log lines may contain the word too. */
const READY = /^(?:gRPC at \S+, )?ready\b/;

/** Runs a recipe until the test ends. Resolves with its output lines once it is ready. */
async function start(name: string): Promise<{ lines: string[]; child: Child }> {
  const lines: string[] = [];
  const child = spawnChild({
    ...{ command: process.execPath, args: [name.replace(/ts$/, "js")], cwd: project, env: ENV },
    onLine: (line) => lines.push(line),
  });
  ends.defer(() => child.kill("SIGKILL"));
  const gone = child.exit.then(() => Promise.reject(new Error(`${name} ended: ${child.tail()}`)));
  await eventually(`${name} is ready`, () => lines.some((line) => READY.test(line)), undefined, gone);
  return { lines, child };
}

/** Stops a recipe, and checks that it exits by itself. */
async function stop({ child }: { child: Child }): Promise<void> {
  expect(await child.kill("SIGTERM"), child.tail()).toEqual({ code: 0, signal: null });
}

function github(path: string, body = '{"zen":"Speak like a human."}'): Promise<Answer> {
  const headers = {
    "Content-Type": "application/json",
    "X-GitHub-Event": "ping",
    "X-GitHub-Delivery": crypto.randomUUID(),
    "X-Hub-Signature-256": `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`,
  };
  return send(at("9090"), { path, headers, body } satisfies Sent);
}

test("the recipes of docs/library.md and docs/runner.md compile strictly in a project with the package, with full checks of all library types", () => {
  const { stdout } = spawnSync(process.execPath, [COMPILER, "-p", project, "--pretty", "false"], {
    cwd: project,
    encoding: "utf8",
  });
  expect(stdout).toBe("");
});

test("the webhooks gateway of docs/library.md accepts a webhook on its own server, and exits when it is stopped", async () => {
  const gateway = await start("webhooks.ts");
  expect((await github("/hooks/github")).status).toBe(202);
  expect((await send(at("9090"), { path: "/hooks/open", body: "hello" })).status).toBe(202);
  expect(gateway.lines.join("\n")).toContain("webhook.accepted");
  await stop(gateway);
});

test.each(["in-express.ts", "in-fastify.ts", "in-node.ts"])(
  "%s of docs/library.md accepts a webhook under /postern beside its own routes, and exits when it is stopped",
  async (name) => {
    const server = await start(name);
    expect((await github("/postern/hooks/github")).status).toBe(202);
    expect((await github("/postern/hooks/other")).json()).toMatchObject({ code: "request.not_found" });
    const echo = await send(at("9090"), {
      path: "/echo",
      headers: { "Content-Type": "application/json" },
      body: '{"mine":true}',
    });
    expect(echo.json()).toEqual({ mine: true });
    await stop(server);
  },
);

test("the payment gateway of docs/library.md sells a job, and exits when it is stopped", async () => {
  const gateway = await start("payments.ts");
  const path = "/x402/jobs/1/7";
  const challenge = await eventually("it sells", async () => {
    const answer = await send(at("8402"), { path, body: "hello" });
    return answer.status === 402 ? answer : undefined;
  });
  const payment = await signOffer(challenge, { payer: await newPayer(devnet) });
  const paid = await send(at("8402"), { path, headers: payment, body: "hello" });
  expect(paid.status, paid.text).toBe(202);
  const schema = await send(at("8402"), { path: "/x402/jobs/1/8/schema", method: "GET" });
  expect(schema.json()).toMatchObject({ required: ["topic"] });
  await stop(gateway);
});

test("the producer of docs/library.md injects a call into the runner of docs/runner.md, and both exit when they are stopped", async () => {
  const gateway = await start("webhooks.ts");
  const { call_id } = (await github("/hooks/github")).json<{ call_id: string }>();
  await stop(gateway);
  const [runner, producer] = await Promise.all([start("my-runner.ts"), start("producer.ts")]);
  await eventually("the call ran", async () => {
    const call = await send(at("8645"), { path: `/calls/${call_id}`, method: "GET" });
    return call.status === 200 && call.json()["state"] === "done";
  });
  await Promise.all([stop(producer), stop(runner)]);
});

test("the all-in-one process of docs/library.md runs a call with its producer, and exits when it is stopped", async () => {
  const gateway = await start("webhooks.ts");
  const { call_id } = (await github("/hooks/github")).json<{ call_id: string }>();
  await stop(gateway);
  const producer = await start("producer-in-process.ts");
  await eventually("the call ran", () => producer.lines.some((line) => line.includes(`running ${call_id}`)));
  await stop(producer);
});

test("the pricing engine of docs/library.md quotes a job, states where the quote is settled, answers health and reflection over gRPC, and exits when it is stopped", async () => {
  const engine = await start("pricing-engine.ts");
  const timestamp = BigInt(Math.floor(Date.now() / 1000));
  const proof = solve({ serviceId: 1n, timestamp }, 20, randomNonce());
  const body = JSON.stringify({
    challenge_timestamp: String(timestamp),
    proof_of_work: hex(proof),
    requester: `0x${"2".repeat(40)}`,
    inputs_hash: `0x${"3".repeat(64)}`,
  });
  const quote = await send(at("8404"), { path: "/pricing/jobs/1/7/quote", body });
  expect(quote.status, quote.text).toBe(200);
  expect(quote.json()["x402_endpoint"]).toBe("https://jobs.example.com/x402/jobs/1/7");
  const client = reflectedClient(at("50051"));
  ends.defer(client.close);
  const health = await client.call("grpc.health.v1.Health", "Check", { service: ENGINE });
  expect(health.response).toEqual({ status: "SERVING" });
  await stop(engine);
});
