import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createReadProcesses } from "../../../shared/telemetry/processes/list.ts";
import { TOKENS, TWO_TOKENS } from "../../fixtures/console.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "operator") }, drain_secs: 0 },
  operator: { tokens: [...TWO_TOKENS] },
}));
const HERE = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];

async function start(args = HERE) {
  const started = postern.start(["operator", ...args]);
  const { address, opsAddress } = await started.waitForEvent("service.started");
  return { started, address: String(address), ops: String(opsAddress) };
}

test("postern operator serves its API, probes and metrics, appears among the processes, and ends with 0 on SIGTERM", async () => {
  const { started, address, ops } = await start();
  const headers = { Authorization: `Bearer ${TOKENS.viewer}` };
  await eventually(
    "it is ready",
    async () => (await send(ops, { method: "GET", path: "/readyz" })).status === 200,
  );
  const jobs = await send(address, { method: "GET", path: "/api/v1/jobs", headers });
  expect([jobs.status, jobs.json()]).toEqual([200, { jobs: [], next: null }]);
  await eventually("its answers are counted", async () => {
    const { text } = await send(ops, { method: "GET", path: "/metrics" });
    const labels = 'http_request_method="GET",http_response_status_code="200",http_route="/api/v1/jobs"';
    return text.includes(`http_server_request_duration_seconds_count{${labels}} 1\n`);
  });
  const { processes } = await createReadProcesses(redis.partition)();
  expect(processes.map(({ kind }) => kind)).toEqual(["operator"]);
  expect(await started.kill("SIGTERM")).toMatchObject({ code: 0 });
  expect(JSON.stringify(started.events())).not.toContain(TOKENS.viewer);
});

onlyInLongRun(() => {
  test("without a token the console serves only this machine; with another address it exits with 3 and says what to do", async () => {
    postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } } });
    const { address } = await start();
    const session = await send(address, { method: "GET", path: "/session" });
    expect(session.json()).toMatchObject({ name: "loopback", role: "operator" });
    const refused = await postern.run([
      "operator",
      "--bind-address",
      "0.0.0.0:0",
      "--ops-address",
      "127.0.0.1:0",
    ]);
    expect([refused.code, refused.stdout]).toEqual([
      3,
      expect.stringMatching(
        /other machines can reach 0\.0\.0\.0:0, but no token is configured: add one to \[\[tokens\]\]/,
      ),
    ]);
  });

  test("the console starts with a Redis that is not durable and shows that to operators, but refuses the data of another release", async () => {
    await redis.client.config("SET", "appendfsync", "everysec");
    try {
      const { ops } = await start();
      await eventually(
        "it is ready",
        async () => (await send(ops, { method: "GET", path: "/readyz" })).status === 200,
      );
    } finally {
      await redis.client.config("SET", "appendfsync", "always");
    }
    await redis.client.set("{postern}:layout", JSON.stringify({ layout: 99, release: "9.9.9" }));
    const refused = await postern.run(["operator", ...HERE]);
    await redis.client.del("{postern}:layout");
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining("start.layout_mismatch")]);
  });
});
