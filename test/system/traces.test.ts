import { beforeEach, expect, test } from "vitest";
import { createReadLife } from "../../shared/call-search/life.ts";
import type { Part } from "../../shared/dev/process.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { traceIdOf } from "../../shared/platform/text/trace-id.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { createReplay } from "../../shared/queue/replay.ts";
import { type CollectedSpan, useCollector } from "../fixtures/collector.ts";
import { type FakeAnswer, useFakeRunner } from "../fixtures/fake-runner.ts";
import { keys } from "../fixtures/redis.ts";
import { useStack } from "../fixtures/stack.ts";
import { idIn } from "../fixtures/x402.ts";
import { send } from "../support/http.ts";
import { treeOf } from "./span-tree.ts";

const BEARER = "the-token-of-the-sender";
const QUEUE = "webhook/0/1";

const collector = useCollector();
const runner = useFakeRunner();
const stack = useStack(() => ({
  env: collector.env,
  endpoints: [
    { path: "/hook", job_id: 1, auth: "bearer", secret: BEARER },
    { path: "/told", job_id: 1, auth: "none" },
  ],
  postern: { runner: { url: runner.url, timeout_ms: 800 }, producer: { lock_ms: 1000 } },
}));

let webhooks: Part;
let producer: Part;
beforeEach(() => {
  [webhooks, producer] = [stack.gateways[0], stack.producers[0]] as [Part, Part];
});

function only(spans: readonly CollectedSpan[], kind: string): CollectedSpan {
  const found = spans.filter((span) => span.kind === kind);
  expect(found).toHaveLength(1);
  return found[0] as CollectedSpan;
}

const attemptsOf = (spans: readonly CollectedSpan[]) => spans.filter(({ kind }) => kind === "consumer");

test("a webhook is one trace, from its sender through a killed producer and a replay to the runner", async () => {
  const sender = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
  const answers: (() => FakeAnswer | Promise<FakeAnswer>)[] = [
    () => ({ status: 500 }),
    async (): Promise<FakeAnswer> => {
      await collector.trace(sender.traceId, 4);
      await producer.kill("SIGKILL");
      return "cut";
    },
    () => ({ status: 400 }),
    () => ({ status: 200 }),
  ];
  runner.answer = () => answers[runner.offers.length - 1]?.() ?? { status: 200 };
  const answer = await send(webhooks.address, {
    path: "/hook?token=secret-of-the-query",
    headers: {
      authorization: `Bearer ${BEARER}`,
      traceparent: `00-${sender.traceId}-${sender.spanId}-00`,
    },
    body: "the body of the webhook",
  });
  expect(answer.status).toBe(202);
  const id = idIn(answer);
  await producer.process.exit;
  await producer.restart();
  await untilReady(producer);
  await eventually("the call fails", async () => (await failedAt(id)) !== undefined);
  const life = await createReadLife(stack.redis.partition)(id);
  const replay = createReplay({
    partition: stack.redis.partition,
    clock: systemClock,
    log: silentLogger,
    by: "a test",
  });
  const failed = { id, queue: QUEUE, failedAt: Number(await failedAt(id)) };
  expect(await replay(failed, { selection: "by test" })).toBe("done");

  const spans = await collector.trace(sender.traceId, 8);
  expect(treeOf(spans)).toEqual([
    `${sender.spanId} > server POST /hook`,
    `consumer process ${QUEUE} 1 runner.failed > client POST /jobs/{job_id} runner.failed`,
    `consumer process ${QUEUE} 3 runner.refused > client POST /jobs/{job_id} runner.refused`,
    `consumer process ${QUEUE} 4 > client POST /jobs/{job_id}`,
    `producer send ${QUEUE} > consumer process ${QUEUE} 1 runner.failed`,
    `producer send ${QUEUE} > consumer process ${QUEUE} 3 runner.refused`,
    `producer send ${QUEUE} > consumer process ${QUEUE} 4`,
    `server POST /hook > producer send ${QUEUE}`,
  ]);
  const creation = only(spans, "producer");
  for (const attempt of attemptsOf(spans)) expect(attempt.links).toEqual([creation.spanId]);
  expect([...new Set(spans.map(({ service }) => service))].sort()).toEqual([
    "postern-producer",
    "postern-webhooks",
  ]);

  const traceparents = runner.offers.map(({ headers }) => String(headers["traceparent"]));
  const clients = spans.filter(({ kind }) => kind === "client").map(({ spanId }) => spanId);
  expect(traceparents.map(traceIdOf)).toEqual(traceparents.map(() => sender.traceId));
  expect(traceparents.map((text) => text.slice(36, 52))).toEqual(expect.arrayContaining(clients));
  expect(traceparents.map((text) => text.slice(-2))).toEqual(["01", "01", "01", "01"]);

  await producer.process.waitForEvent("call.injected", { where: ({ callId }) => callId === id });
  const lines = [...webhooks.process.events(), ...producer.process.events()];
  const ofCall = lines.filter(({ callId, event }) => callId === id && event !== "call.lease_expired");
  expect(ofCall.map(({ event }) => event)).toEqual(["webhook.accepted", "call.failed", "call.injected"]);
  expect(ofCall.map(({ traceId }) => traceId)).toEqual(ofCall.map(() => sender.traceId));
  expect(life?.head?.traceparent).toBe(`00-${sender.traceId}-${creation.spanId}-01`);
  for (const secret of [BEARER, "secret-of-the-query", "the body of the webhook"])
    expect(collector.raw).not.toContain(secret);
});

async function failedAt(id: string): Promise<string | undefined> {
  return (await stack.redis.client.zscore(keys.inQueue(QUEUE, "failed"), id)) ?? undefined;
}

test("the spans of a webhook follow OpenTelemetry's conventions", async () => {
  const answer = await send(webhooks.address, {
    path: "/told",
    headers: { host: "hooks.test:80" },
    body: "{}",
  });
  const id = idIn(answer);
  const offer = await eventually("the runner has it", () => runner.offers.at(-1));
  const spans = await collector.trace(traceIdOf(String(offer.headers["traceparent"])), 4);
  expect(only(spans, "server")).toMatchObject({
    parent: "",
    attributes: {
      "http.request.method": "POST",
      "http.route": "/told",
      "url.path": "/told",
      "url.scheme": "http",
      "server.address": "hooks.test",
      "http.response.status_code": 202,
    },
  });
  const messaging = {
    "postern.call_id": id,
    "messaging.system": "bullmq",
    "messaging.destination.name": QUEUE,
    "messaging.message.id": id,
  };
  expect(only(spans, "producer").attributes).toMatchObject({
    ...messaging,
    "messaging.operation.type": "send",
  });
  expect(only(spans, "consumer").attributes).toMatchObject({
    ...messaging,
    "messaging.operation.type": "process",
  });
  expect(only(spans, "client").attributes).toMatchObject({
    "http.request.method": "POST",
    "url.template": "/jobs/{job_id}",
    "server.address": "127.0.0.1",
    "server.port": Number(new URL(runner.url).port),
    "http.response.status_code": 200,
  });
});

test("a refused webhook has a span with its error code, and a request to an unknown path has no span", async () => {
  await send(webhooks.address, { path: "/nowhere" });
  await send(webhooks.address, { path: "/hook", headers: { authorization: "Bearer wrong" } });
  const span = await eventually("its span has come", () => collector.spans.at(-1));
  expect(span).toMatchObject({
    name: "POST /hook",
    isFailed: false,
    attributes: { "http.response.status_code": 401, "error.type": "webhook.credential_rejected" },
  });
  expect(collector.spans.filter(({ kind }) => kind === "server")).toHaveLength(1);
});
