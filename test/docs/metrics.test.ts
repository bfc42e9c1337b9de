import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { usePostern } from "../fixtures/postern.ts";
import { KEY } from "../fixtures/pricing.ts";
import { useRedis } from "../fixtures/redis.ts";
import { SALES_TABLES } from "../fixtures/sales-tables.ts";
import { send } from "../support/http.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { readDocument } from "./blocks.ts";
import { readAlerts, readQueries } from "./operations.ts";

const PROCESSES = ["webhooks", "x402", "producer", "runner", "pricing", "operator"] as const;

type Metric = { name: string; type: string; labels: string[]; processes: string[] };
type Documented = Metric & { aggregate: string };

const byName = (a: Metric, b: Metric) => (a.name < b.name ? -1 : 1);

/** The rows of the page's table. */
const DOCUMENTED = readRows();

function readRows(): Documented[] {
  const rows = readDocument("docs/metrics.md").matchAll(
    /^\| `((?:postern|http_server)_\w+)` \| (\w+) \|([^|]*)\| ([a-z0-9, ]+) \| (\w+) \| [^|]+ \|$/gm,
  );
  return [...rows].map(([, name = "", type = "", labels = "", processes = "", aggregate = ""]) => ({
    ...{ name, type, aggregate },
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label).sort(),
    processes: (processes === "all" ? [...PROCESSES] : processes.split(", ")).sort(),
  }));
}

/** Labels by metric, read from the sources, because `/metrics` shows a label only once it has a value. */
function labelsInSources(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const folder of ["services", "shared"]) {
    const root = fileURLToPath(new URL(`../../${folder}/`, import.meta.url));
    for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".ts")) continue;
      const text = readFileSync(`${root}${file}`, "utf8");
      const constant = /const labels = (\[[^\]]*\])/.exec(text)?.[1] ?? "";
      for (const [, name = "", rest = ""] of text.matchAll(
        /(?:name: |\.(?:counter|gauge|duration)\(\s*)"((?:postern|http_server)_\w+)",([\s\S]*?)(?:\);|\}\);)/g,
      )) {
        const labels =
          /\[([^\]]*)\],?\s*(?:[A-Z_]+,?\s*)?$/.exec(rest.replace(/, labels\s*$/, `, ${constant}`))?.[1] ??
          "";
        found.set(name, [...labels.matchAll(/"(\w+)"/g)].map(([, label = ""]) => label).sort());
      }
    }
  }
  return found;
}

test("the table of docs/metrics.md lists every metric of the sources with its labels, and no other", () => {
  const labels = new Map(DOCUMENTED.map((metric) => [metric.name, metric.labels]));
  expect(labels).toEqual(labelsInSources());
});

test("counters are summed over processes, and values that every process reads from the partitions are not", () => {
  for (const { name, type, labels, aggregate } of DOCUMENTED) {
    const isRead = labels.includes("partition");
    const gauge = isRead ? ["max", "min"] : ["sum", "max", "min", "count"];
    expect(type === "gauge" ? gauge : ["sum"], name).toContain(aggregate);
  }
});

onlyInLongRun(() => {
  const redis = useRedis();
  const postern = usePostern(() => ({
    postern: { drain_secs: 0, redis: { url: redis.url } },
    webhooks: { endpoints: [{ path: "/hooks/open", job_id: 1, auth: "none" }] },
    ...SALES_TABLES,
  }));

  /** Names and types of the metrics that a process lists at `/metrics`. */
  async function registeredBy(process: string): Promise<[name: string, type: string][]> {
    const bind = process === "producer" ? [] : ["--bind-address", "127.0.0.1:0"];
    const env = { POSTERN_PRICING_KEY: KEY };
    const started = postern.start([process, ...bind, "--ops-address", "127.0.0.1:0"], { env });
    const startsAtOnce = process === "producer" || process === "runner";
    const { opsAddress } = await started.waitForEvent(startsAtOnce ? "service.started" : "service.starting");
    const { text } = await send(String(opsAddress), { method: "GET", path: "/metrics" });
    return [...text.matchAll(/^# TYPE ((?:postern|http_server)_\w+) (\w+)$/gm)].map(
      ([, name = "", type = ""]) => [name, type],
    );
  }

  test("the table of docs/metrics.md lists every metric of every process with its type and labels, and none that does not exist", async () => {
    const registered = await Promise.all(PROCESSES.map(registeredBy));
    const labels = labelsInSources();
    const real = new Map<string, Metric>();
    for (const [i, metrics] of registered.entries()) {
      for (const [name, type] of metrics) {
        const known = real.get(name) ?? {
          name,
          type,
          labels: labels.get(name) ?? ["unknown"],
          processes: [],
        };
        real.set(name, { ...known, processes: [...known.processes, PROCESSES[i] ?? ""].sort() });
      }
    }
    const rows = DOCUMENTED.map(({ aggregate: _, ...metric }) => metric);
    expect(rows.sort(byName)).toEqual([...real.values()].sort(byName));
  });
});

/** Labels that Prometheus adds to each series, and its name for a metric's label `job`. */
const TARGET_LABELS = ["instance", "job", "exported_job", "le"];

const expressions = [
  ...readAlerts().map(({ alert, expr }) => ({ name: alert, expr })),
  ...readQueries().map(({ panel, expr }) => ({ name: panel, expr })),
];

test.each(expressions)("the query of $name asks for metrics and labels that exist", ({ expr }) => {
  const known = new Map(DOCUMENTED.map((metric) => [metric.name, metric]));
  const used = [...expr.matchAll(/((?:postern|http_server)_\w+)(?:\{([^}]*)\})?/g)].map(
    ([, series = "", selector = ""]) => {
      const name = known.has(series) ? series : series.replace(/_bucket$/, "");
      return { name, selector };
    },
  );
  const labels = used.flatMap(({ name }) => known.get(name)?.labels ?? []);
  for (const { name, selector } of used) {
    expect(known.has(name), name).toBe(true);
    for (const [, label] of selector.matchAll(/(\w+)(?:=|!=)/g))
      expect(known.get(name)?.labels).toContain(label);
  }
  for (const [, grouped = ""] of expr.matchAll(/ by \(([^)]*)\)/g))
    for (const label of grouped.split(", "))
      if (used.length > 0) expect([...labels, ...TARGET_LABELS]).toContain(label);
});

test.each(expressions)("the query of $name combines processes as docs/metrics.md says", ({ expr }) => {
  const aggregates = new Map(DOCUMENTED.map(({ name, aggregate }) => [name, aggregate]));
  const ways = expr.matchAll(
    /(?:\b(sum|max|min|count)(?: by \([^)]*\) | ?)\()?(?:(?:rate|increase|abs)\()?((?:postern|http_server)_\w+)/g,
  );
  for (const [, way, name = ""] of ways)
    expect(way, name).toBe(aggregates.get(name) ?? aggregates.get(name.replace(/_bucket$/, "")));
});
