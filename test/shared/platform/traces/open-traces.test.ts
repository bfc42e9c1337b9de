import { createServer, type Server } from "node:http";
import { expect, test } from "vitest";
import { onFreePort } from "../../../../shared/dev/free-port.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openTraces } from "../../../../shared/platform/traces/open-traces.ts";
import { tracer } from "../../../../shared/platform/traces/tracer.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { send } from "../../../support/http.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const redis = useRedis();
const ends = useEnds();
const postern = usePostern(() => ({
  postern: { drain_secs: 0, redis: { url: asUser(redis.url, "webhooks") } },
  webhooks: { endpoints: [{ path: "/hook", job_id: 1, auth: "none" }] },
}));

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
const open = (env: Record<string, string>) =>
  openTraces({ env, service: "postern-test", release: "1", log: recordingLog() });

test.each([
  {},
  { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
  { ...ENDPOINT, OTEL_SDK_DISABLED: "true" },
  { ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" },
])("tracing is off with %j", async (env) => {
  expect(await open(env)).toBeUndefined();
  expect(tracer).toBeUndefined();
});

test.each([
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318/key" },
    "OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https",
  ],
  [
    { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    'OTEL_EXPORTER_OTLP_PROTOCOL: must be "http/protobuf"',
  ],
  [{ ...ENDPOINT, OTEL_TRACES_SAMPLER: "sometimes" }, "OTEL_TRACES_SAMPLER: must be one of always_on, "],
  [{ ...ENDPOINT, OTEL_TRACES_SAMPLER_ARG: "10%" }, "OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1"],
] as const)("a service does not start with %j", async (env, reason) => {
  await expect(open(env)).rejects.toMatchObject({
    code: "start.config_invalid",
    message: expect.stringContaining(reason),
  });
  await expect(open(env)).rejects.not.toMatchObject({ message: expect.stringContaining("/key") });
});

/** Resolves with the URL of a collector that accepts connections and never answers. */
async function silentCollector(): Promise<string> {
  const server: Server = createServer(() => {});
  ends.defer(() => void server.closeAllConnections());
  const port = await onFreePort(async (free) => {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(free, "127.0.0.1", resolve);
    });
    return free;
  });
  ends.defer(() => void server.close());
  return `http://127.0.0.1:${port}`;
}

test.each([
  ["refuses connections", async () => "http://127.0.0.1:9"],
  ["never answers", silentCollector],
])(
  "a gateway whose collector %s accepts calls, logs that spans are lost, and stops in time",
  async (_, urlOf) => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: await urlOf(),
      OTEL_EXPORTER_OTLP_TIMEOUT: "300",
      OTEL_BSP_SCHEDULE_DELAY: "20",
    };
    const anywhere = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
    const gateway = postern.start(["webhooks", ...anywhere], { env });
    const { address } = await gateway.waitForEvent("service.started");
    const hook = () => send(String(address), { path: "/hook", body: "{}" });
    await eventually("a call is accepted", async () => (await hook()).status === 202);
    expect(await gateway.waitForEvent("traces.export_failed")).toMatchObject({ level: "warn" });
    expect((await hook()).status).toBe(202);
    const since = performance.now();
    expect((await gateway.kill("SIGTERM")).code).toBe(0);
    expect(performance.now() - since).toBeLessThan(8000);
  },
);
