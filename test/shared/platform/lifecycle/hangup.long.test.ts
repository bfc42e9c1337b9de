import { expect, test } from "vitest";
import type { ProcessKind } from "../../../../shared/telemetry/processes/process.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const postern = usePostern();
const tablesOf = (user: ProcessKind) => ({
  postern: { drain_secs: 0, redis: { url: asUser(redis.url, user) }, runner: { timeout_ms: 300 } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
});

const OPS = ["--ops-address", "127.0.0.1:0"];
const BIND = ["--bind-address", "127.0.0.1:0"];

const SERVICES: [ProcessKind, string[]][] = [
  ["webhooks", [...BIND, ...OPS]],
  ["producer", OPS],
  ["runner", [...BIND, ...OPS]],
  ["operator", [...BIND, ...OPS]],
];

test.each(SERVICES)(
  "postern %s handles each SIGHUP, goes on, and still exits with 0 on SIGTERM",
  async (name, args) => {
    postern.configure(tablesOf(name));
    const service = postern.start([name, ...args]);
    await service.waitForEvent("service.started");
    for (const count of [1, 2]) {
      process.kill(service.pid, "SIGHUP");
      await service.waitForEvent("config.reloaded", {
        where: () => service.events("config.reloaded").length === count,
      });
    }
    expect(service.events("service.stopping")).toEqual([]);
    expect(await service.kill("SIGTERM")).toMatchObject({ code: 0 });
  },
);
