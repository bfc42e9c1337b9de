import { expect, test } from "vitest";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { createReadSeries } from "../../shared/telemetry/series/read.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { usePostern } from "../fixtures/postern.ts";
import { asUser, useOwnRedis } from "../fixtures/redis.ts";
import { send } from "../support/http.ts";

const CALLS = 60;
const PATH = "/hooks/a";

const redis = useOwnRedis();
const runner = useFakeRunner();
const postern = usePostern();

const configure = (kind: ProcessKind): void =>
  postern.configure({
    postern: {
      drain_secs: 0,
      redis: { url: asUser(redis.url, kind) },
      runner: { url: runner.url },
      producer: { backoff: { base_ms: 10, cap_ms: 10 } },
    },
    webhooks: { endpoints: [{ path: PATH, job_id: 1, auth: "none" }] },
  });

function start(kind: "webhooks" | "producer"): PosternProcess {
  configure(kind);
  const bind = kind === "webhooks" ? ["--bind-address", "127.0.0.1:0"] : [];
  const env = { POSTERN_LOG_CALLS: "0.5" };
  return postern.start([kind, ...bind, "--ops-address", "127.0.0.1:0"], { env });
}

/** Starts `postern tail`. Resolves with its entries once it follows. */
async function follow(): Promise<Record<string, unknown>[]> {
  configure("operator");
  const shown: Record<string, unknown>[] = [];
  let follows = false;
  postern.start(["tail", "-o", "json"], {
    onLine(line) {
      follows = true;
      if (line.startsWith("{")) shown.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  await eventually("postern tail follows", () => follows);
  return shown;
}

/** Makes the runner refuse the calls with these bodies once. */
const refuseOnce = (bodies: readonly string[]) => {
  const left = new Set(bodies);
  runner.answer = ({ body }) => ({ status: left.delete(body.toString()) ? 503 : 200 });
};

const idsOf = (process: PosternProcess, event: string): string[] =>
  process.events(event).map(({ callId }) => String(callId));

async function metric(opsAddress: unknown, line: RegExp): Promise<number> {
  const { text } = await send(String(opsAddress), { method: "GET", path: "/metrics" });
  return Number(line.exec(text)?.[1]);
}

test("with POSTERN_LOG_CALLS=0.5 all processes log the same half of the calls and every retry, and metrics, counts and postern tail include all calls", async () => {
  const [gateway, producer] = [start("webhooks"), start("producer")];
  const { address, opsAddress } = await gateway.waitForEvent("service.started");
  const { opsAddress: ofProducer } = await producer.waitForEvent("service.started");
  const shown = await follow();
  const bodies = Array.from({ length: CALLS }, (_, n) => `call ${n}`);
  refuseOnce(bodies.slice(0, CALLS / 2));

  const sent = await Promise.all(bodies.map((body) => send(String(address), { path: PATH, body })));
  const ids = sent.map(({ json }) => String(json()["call_id"]));
  const seen = (outcome: string) => shown.filter((event) => event["outcome"] === outcome).length;
  await eventually("postern tail shows each call", () => seen("accepted") + seen("injected") === 2 * CALLS);
  expect(seen("retried")).toBe(CALLS / 2);
  expect(
    await Promise.all([
      metric(opsAddress, /^postern_webhooks_total\{.*code="accepted"\} (\d+)$/m),
      metric(ofProducer, /^postern_inject_total\{.*outcome="injected"\} (\d+)$/m),
    ]),
  ).toEqual([CALLS, CALLS]);
  await Promise.all([gateway.kill("SIGTERM"), producer.kill("SIGTERM")]);

  const [retried, smooth] = [ids.slice(0, CALLS / 2), ids.slice(CALLS / 2)];
  const logged = idsOf(gateway, "webhook.accepted");
  expect(idsOf(producer, "call.delayed").toSorted()).toEqual(retried.toSorted());
  expect(idsOf(producer, "call.injected").toSorted()).toEqual(
    [...retried, ...smooth.filter((id) => logged.includes(id))].toSorted(),
  );
  expect([1, CALLS - 1].map((count) => Math.sign(logged.length - count))).toEqual([1, -1]);

  const { counted } = await createReadSeries(redis.partition).total("fine");
  const job = counted.find(({ subject }) => subject.kind === "job");
  expect(job?.counts).toMatchObject({ accepted: CALLS, injected: CALLS });
});
