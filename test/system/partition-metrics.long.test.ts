import { expect, test } from "vitest";
import type { ConfigTables } from "../../shared/config/config-tables.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { newDeploymentId } from "../../shared/redis/deployment.ts";
import { RELEASE } from "../../shared/redis/layout.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { TWO_TOKENS } from "../fixtures/console.ts";
import { usePostern } from "../fixtures/postern.ts";
import { KEY } from "../fixtures/pricing.ts";
import { asUser, useOwnRedis } from "../fixtures/redis.ts";
import { SALES_TABLES } from "../fixtures/sales-tables.ts";
import { send } from "../support/http.ts";

const PROCESSES = ["webhooks", "x402", "producer", "pricing", "operator"] as const;
type Name = (typeof PROCESSES)[number];

const ID = newDeploymentId();

const servers = [useOwnRedis(), useOwnRedis()] as const;
const postern = usePostern();

/** Returns the common configuration, with the login of one kind of process. */
const tablesFor = (kind: ProcessKind): ConfigTables => ({
  postern: {
    drain_secs: 0,
    redis: { deployment_id: ID, partitions: servers.map(({ url }) => ({ url: asUser(url, kind) })) },
  },
  webhooks: { endpoints: [{ path: "/hooks/open", job_id: 1, auth: "none" }] },
  ...SALES_TABLES,
  operator: { tokens: [...TWO_TOKENS] },
});

/** Starts a process. Resolves with a function that reads its metrics. */
async function start(name: Name): Promise<() => Promise<string>> {
  postern.configure(tablesFor(name));
  const bind = name === "producer" ? [] : ["--bind-address", "127.0.0.1:0"];
  const env = { POSTERN_PRICING_KEY: KEY };
  const started = postern.start([name, ...bind, "--ops-address", "127.0.0.1:0"], { env });
  const { opsAddress } = await started.waitForEvent(
    name === "producer" ? "service.started" : "service.starting",
  );
  return async () => (await send(String(opsAddress), { method: "GET", path: "/metrics" })).text;
}

/** Returns the values of a metric by partition. If a partition has several series, the last one counts. */
function byPartition(text: string, metric: string): Record<string, number> {
  const series = text.matchAll(new RegExp(`^${metric}\\{(?:.*,)?partition="(\\d+)"\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...series].map(([, partition, value]) => [partition, Number(value)]));
}

/** Metrics that gateways read from each partition. */
const READ = [
  "postern_queue_calls",
  "postern_queue_oldest_age_seconds",
  "postern_queue_bytes",
  "postern_redis_memory_ratio",
  "postern_redis_maxmemory_bytes",
  "postern_workers_alive",
] as const;
const READ_BY: Partial<Record<Name, readonly string[]>> = {
  webhooks: READ,
  x402: [...READ, "postern_payments", "postern_payment_unresolved_age_seconds"],
};

/** Returns which partitions a process uses, and for which partitions each metric has a value. */
function reported(name: Name, text: string) {
  const metrics = READ_BY[name] ?? [];
  return {
    usable: byPartition(text, "postern_redis_usable"),
    known: Object.fromEntries(metrics.map((metric) => [metric, Object.keys(byPartition(text, metric))])),
  };
}

/** Returns the expected result of `reported` if only these partitions can be used. */
function expected(name: Name, usable: readonly number[]): ReturnType<typeof reported> {
  const all = name === "pricing" ? [0] : [0, 1];
  const metrics = READ_BY[name] ?? [];
  return {
    usable: Object.fromEntries(all.map((index) => [index, Number(usable.includes(index))])),
    known: Object.fromEntries(metrics.map((metric) => [metric, usable.map(String)])),
  };
}

test("each process reports which partitions it can use, and has metrics only for these", async () => {
  const texts = {} as Record<Name, () => Promise<string>>;
  for (const name of PROCESSES) texts[name] = await start(name);
  const alive = async () => byPartition(await texts.webhooks(), "postern_workers_alive");
  const untilWhole = (name: Name) =>
    eventually(`${name} uses both partitions, and knows the producer in both`, async () => {
      expect(reported(name, await texts[name]())).toEqual(expected(name, [0, 1]));
      expect(await alive()).toEqual({ "0": 1, "1": 1 });
      return true;
    });

  await Promise.all(PROCESSES.map(untilWhole));
  for (const name of PROCESSES)
    expect(await texts[name]()).toContain(
      `\npostern_build_info{version="${RELEASE}",node="${process.versions.node}"} 1\n`,
    );
  for (const [away, { server }] of servers.entries()) {
    const other = 1 - away;
    await server.kill("SIGKILL");
    for (const name of PROCESSES) {
      const usesIt = (text: string) => byPartition(text, "postern_redis_usable")[away] === 1;
      const text = await eventually(`${name} no longer uses it`, async () => {
        const now = await texts[name]();
        return usesIt(now) ? undefined : now;
      });
      expect(reported(name, text)).toEqual(expected(name, [other]));
    }
    expect(await alive()).toEqual({ [other]: 1 });
    await server.restart();
    await Promise.all(PROCESSES.map(untilWhole));
  }
}, 60_000);
