import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

const FOLDER = new URL("../../docs/operations/", import.meta.url);

/** The path of a file of docs/operations. */
export const operationsFile = (name: string): string => fileURLToPath(new URL(name, FOLDER));

type Alert = {
  alert: string;
  expr: string;
  for: string;
  labels: { severity: string };
  annotations: { summary: string; runbook: string };
};

/** The alerts of rules.yml, in order. */
export function readAlerts(): Alert[] {
  const text = readFileSync(operationsFile("prometheus/rules.yml"), "utf8");
  const { groups } = parse(text) as { groups: { rules: Alert[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

type ScrapeJob = { job_name: string; static_configs?: { targets: string[] }[] };

/** The scrape job of a configuration of Prometheus. */
export function readScrapeJob(name: string): ScrapeJob {
  const text = readFileSync(operationsFile(`prometheus/${name}`), "utf8");
  const { scrape_configs: jobs } = parse(text) as { scrape_configs: [ScrapeJob] };
  return jobs[0];
}

/** The addresses that the Prometheus of one machine scrapes. */
export const scrapedTargets = (): string[] =>
  readScrapeJob("prometheus.yml").static_configs?.flatMap(({ targets }) => targets) ?? [];

/** A query of the dashboard, and the panel that shows it. */
type Query = { panel: string; expr: string };

/** The queries of the dashboard's panels, with a range in place of Grafana's variable. */
export function readQueries(range = "5m"): Query[] {
  const text = readFileSync(operationsFile("grafana/dashboard.json"), "utf8");
  const { panels } = JSON.parse(text) as { panels: { title: string; targets?: { expr: string }[] }[] };
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ panel: title, expr: expr.replaceAll("$__rate_interval", range) })),
  );
}

/** The sections of the runbook by their alert, in order. */
export function readRunbook(): Map<string, string> {
  const [, ...sections] = readFileSync(operationsFile("runbook.md"), "utf8").split(/^## /m);
  return new Map(
    sections.map((section) => {
      const [title = "", ...lines] = section.split("\n");
      return [title, lines.join("\n")];
    }),
  );
}

/** The commands of `postern` that a text names. */
export const commandsIn = (text: string): string[] =>
  [...text.matchAll(/`postern ([^`]+)`/g)].map(([, words = ""]) => words);
