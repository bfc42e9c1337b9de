import { expect, test } from "vitest";
import { callIdFrom } from "../../shared/call/call-id.ts";
import { builtEntry, type Part, startPart } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { useEnds } from "../fixtures/ends.ts";
import { usePostern } from "../fixtures/postern.ts";
import { asUser, useRedis } from "../fixtures/redis.ts";
import { type Answer, send } from "../support/http.ts";
import { bundled } from "../support/programs.ts";
import { deliverResultOn } from "../support/results.ts";

const PATH = "/hooks/waiting";
const CLIENTS = 2000;
const WARM_UP = 50;
/** Approximate memory per client by docs/operations/limits.md, including its connection. */
const CLIENT_BYTES = 20 * 1024;
/** Body that is larger than a client's limit, so that a kept body would be noticed. */
const BODY = "b".repeat(CLIENT_BYTES);

const ends = useEnds();
const redis = useRedis();
const endpoint = { path: PATH, job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" };
const postern = usePostern(() => ({
  postern: {
    redis: { url: asUser(redis.url, "webhooks") },
    results: { secret: "the secret of the tokens of results", wait_secs_max: 3600 },
  },
  webhooks: { endpoints: [{ ...endpoint, respond: "result", wait_secs: 3600 }] },
}));

async function startGateway(): Promise<Part> {
  const addresses = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const gateway = await startPart({
    name: "gateway",
    entry: ["--import", bundled("heap"), ...builtEntry("services/cli/main.js")],
    args: ["webhooks", "--config-dir", postern.configDir, ...addresses, "--service-id", "7"],
    env: process.env,
  });
  ends.defer(() => gateway.kill("SIGKILL"));
  await untilReady(gateway);
  return gateway;
}

/** Returns the memory of the process after a garbage collection. */
async function keptBytes({ process }: Part): Promise<number> {
  const { url } = await process.waitForEvent("bench.heap");
  let kept = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) kept = Math.min(kept, Number(await (await fetch(String(url))).text()));
  return kept;
}

test(`each of ${CLIENTS} clients that wait at a gateway uses at most 20 KiB without its body, gets the result of its own call, and gets 202 when the gateway stops`, async () => {
  const gateway = await startGateway();
  const deliver = deliverResultOn(redis.partition);
  let begun = 0;

  async function begin(clients: number): Promise<{ id: string; answer: Promise<Answer> }[]> {
    const first = begun;
    const begunNow = Array.from({ length: clients }, (_, i) => {
      const delivery = `delivery-${first + i}`;
      const headers = { "X-Delivery-Id": delivery };
      const id = callIdFrom(PATH, delivery, sha256Hex(Buffer.from(BODY)));
      const answer = send(gateway.address, { path: PATH, headers, body: BODY, timeoutMs: 180_000 });
      answer.catch(() => {}); // the answer is awaited later
      return { id, answer };
    });
    begun += clients;
    await eventually(`${clients} clients wait`, async () => {
      const metrics = await (await fetch(`http://${gateway.opsAddress}/metrics`)).text();
      return new RegExp(`^postern_waiting_clients ${clients}$`, "m").test(metrics);
    });
    return begunNow;
  }

  async function expectResults(clients: Awaited<ReturnType<typeof begin>>): Promise<void> {
    const told = { kind: "answer", status: 200, contentType: "text/plain", by: "delivery" } as const;
    for (const { id } of clients)
      await deliver(id, { ...told, at: Date.now(), body: Buffer.from(`result of ${id}`) });
    const answers = await Promise.all(clients.map(({ answer }) => answer));
    expect(answers.map(({ text }) => text)).toEqual(clients.map(({ id }) => `result of ${id}`));
  }

  await expectResults(await begin(WARM_UP));
  const before = await keptBytes(gateway);
  const waiting = await begin(CLIENTS);
  expect(((await keptBytes(gateway)) - before) / CLIENTS).toBeLessThan(CLIENT_BYTES);
  await expectResults(waiting.splice(0, CLIENTS / 2));

  const exit = gateway.kill("SIGTERM");
  const answers = await Promise.all(waiting.map(({ answer }) => answer));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect((await exit).code).toBe(0);
});
