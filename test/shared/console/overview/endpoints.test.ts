import { join } from "node:path";
import type { TomlTable } from "smol-toml";
import { beforeEach, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { createEndpointsApi, EndpointView } from "../../../../shared/console/overview/endpoints.ts";
import { createFlowApi } from "../../../../shared/console/overview/flow.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { useReports } from "../../../fixtures/reports.ts";
import { partitionsOver } from "../../../support/partitions.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const redis = useRedis();
const { start } = useReports(redis);

beforeEach(async () => {
  await redis.client.flushdb();
});

const SECRET = "a-secret-that-nobody-is-shown";

function endpointsOf(endpoints?: readonly TomlTable[]) {
  const partitions = partitionsOver(redis.client);
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, { postern: {}, ...(endpoints && { webhooks: { endpoints: [...endpoints] } }) });
  return createEndpointsApi({
    partitions,
    configDir,
    flow: createFlowApi({ partition: partitions.control }),
  });
}

test("each endpoint is shown with its preset, its way to authenticate and its jobs, but without its secret", async () => {
  const list = await endpointsOf([
    { path: "/hooks/a", job_id: 1, auth: "bearer", secret: SECRET, name: "alpha" },
    {
      ...{ path: "/hooks/b", preset: "github", secret: "env:NOBODY_HAS_SET_IT" },
      route_by: { header: "X-GitHub-Event", jobs: { push: 3, release: 2, create: 3 } },
    },
  ]).list();
  expect(list.map((each) => EndpointView.parse(each))).toMatchObject([
    { path: "/hooks/a", configured: true, name: "alpha", preset: null, auth: "bearer", jobs: [1] },
    { path: "/hooks/b", preset: "github", auth: "signature", jobs: [2, 3] },
  ]);
  expect(JSON.stringify(list)).not.toContain(SECRET);
});

test("an endpoint shows its requests, even if it is no longer configured", async () => {
  const { log, flush } = await start();
  log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
  log.warn("webhook.refused", { path: "/hooks/gone", code: "request.too_large" });
  await flush();
  const list = await endpointsOf([{ path: "/hooks/a", job_id: 1, auth: "none" }]).list();
  expect(list).toMatchObject([
    { path: "/hooks/a", configured: true, counts: { accepted: 1 } },
    { path: "/hooks/gone", configured: false, auth: null, counts: { refused: { "request.too_large": 1 } } },
  ]);
});

test("an endpoint shows for each reason how often a credential was refused, and when last", async () => {
  const at = Date.now() - 90_000;
  const { log, flush } = await start({ clock: () => at });
  log.warn("webhook.refused", { path: "/hooks/a", code: "webhook.credential_rejected", reason: "mismatch" });
  await flush();
  const [endpoint] = await endpointsOf([{ path: "/hooks/a", job_id: 1, auth: "none" }]).list();
  expect(EndpointView.parse(endpoint).counts).toMatchObject({
    unauthorized: { mismatch: 1 },
    unauthorized_newest: { mismatch: new Date(at).toISOString() },
  });
});

test("without webhooks.toml the list is empty", async () => {
  expect(await endpointsOf().list()).toEqual([]);
});
