import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { onlyInLongRun } from "../support/long-run.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import { readDocument } from "./blocks.ts";
import { operationsFile, readAlerts, readQueries, readScrapeJob, scrapedTargets } from "./operations.ts";

const promtool = (...args: string[]) => spawnSync(pathOf("promtool"), args, { encoding: "utf8" });

test("Prometheus accepts the shipped configuration with the rules", needs("promtool"), () => {
  const { status, stdout, stderr } = promtool("check", "config", operationsFile("prometheus/prometheus.yml"));
  expect([status, stderr, stdout]).toEqual([0, "", expect.stringMatching(/SUCCESS: \d+ rules found/)]);
});

test("the shipped configurations scrape under the job name that the alerts and the dashboard select", () => {
  const jobs = ["prometheus.yml", "kubernetes.yml"].map((name) => readScrapeJob(name).job_name);
  const queries = [...readAlerts(), ...readQueries()].map(({ expr }) => expr).join("\n");
  const selected = [...queries.matchAll(/[{,]job="([^"]*)"/g)].map(([, job]) => job);
  expect(selected.length).toBeGreaterThan(3);
  expect(new Set([...jobs, ...selected])).toEqual(new Set(["postern"]));
});

test("the shipped configuration scrapes the private address of each process at its default port, and no port twice", () => {
  const table = readDocument("docs/operations/processes.md");
  const defaults = [...table.matchAll(/^\| `postern \w+`.*\| (127\.0\.0\.1:\d+)/gm)].map(
    ([, address]) => address,
  );
  expect(defaults).toHaveLength(6);
  expect(scrapedTargets()).toEqual(expect.arrayContaining(defaults));
  const page = readDocument("docs/operations/prometheus/README.md");
  const servers = [...page.matchAll(/--web\.listen-address=(\S+)/g)].map(([, address]) => address);
  expect(servers).toHaveLength(2);
  const gateways = ["127.0.0.1:9090", "127.0.0.1:9190"];
  const used = [...servers, ...scrapedTargets(), ...gateways];
  expect(new Set(used).size).toBe(used.length);
});

onlyInLongRun(() => {
  test(
    "on Kubernetes the private port of each pod is scraped alone, with the namespace that KEDA selects",
    needs("promtool"),
    () => {
      // Debian builds Prometheus without the discovery of Kubernetes, so its labels of two ports stand in for it.
      const meta = (port: string) => ({
        targets: [`10.0.0.7:${port}`],
        labels: {
          __meta_kubernetes_namespace: "postern",
          __meta_kubernetes_pod_name: "postern-webhooks-1",
          __meta_kubernetes_pod_container_port_name: port === "9091" ? "ops" : "http",
        },
      });
      const { kubernetes_sd_configs: found, ...job } = readScrapeJob("kubernetes.yml") as Record<
        string,
        unknown
      > & {
        job_name: string;
      };
      expect(found).toEqual([{ role: "pod", namespaces: { names: ["postern"] } }]);
      const file = join(tempDir(), "prometheus.yml");
      writeFileSync(
        file,
        stringify({ scrape_configs: [{ ...job, static_configs: [meta("9091"), meta("9090")] }] }),
      );
      const { status, stdout, stderr } = promtool(
        "check",
        "service-discovery",
        "--timeout=1s",
        file,
        job.job_name,
      );
      expect([status, stderr]).toEqual([0, ""]);
      const targets = JSON.parse(stdout) as { labels: Record<string, string> }[];
      const [scraped, ...others] = targets
        .map(({ labels }) => labels)
        .filter((labels) => labels["job"] !== undefined);
      expect([scraped, others]).toMatchObject([
        {
          __address__: "10.0.0.7:9091",
          job: "postern",
          namespace: "postern",
          instance: "postern-webhooks-1",
        },
        [],
      ]);

      const keda = readFileSync(operationsFile("kubernetes/keda/scaled-object.yaml"), "utf8");
      const selected = new Set([...keda.matchAll(/namespace="([^"]*)"/g)].map(([, namespace]) => namespace));
      expect([...selected]).toEqual([scraped?.["namespace"]]);
      expect(readFileSync(operationsFile("kubernetes/kustomization.yaml"), "utf8")).toContain(
        "namespace: postern\n",
      );
    },
  );
});
