import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { runHere } from "../services/cli/run-here.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { needs, pathOf } from "../support/needs.ts";
import { DOCUMENTS, readDocument } from "./blocks.ts";
import { commandsIn, operationsFile, readAlerts, readRunbook } from "./operations.ts";

const alerts = readAlerts();
const names = alerts.map(({ alert }) => alert);

test("each alert has a time, a severity, a summary and the address of its section in the runbook", () => {
  expect(names.length).toBeGreaterThan(20);
  for (const { alert, for: time, labels, annotations } of alerts) {
    expect(time, alert).toMatch(/^\d+[mh]$/);
    expect(["critical", "warning", "info"], alert).toContain(labels.severity);
    expect(annotations.summary, alert).toMatch(/\.$/);
    expect(annotations.runbook).toBe(`docs/operations/runbook.md#${alert.toLowerCase()}`);
  }
});

test("the runbook has one section for each alert, and each says what it means, how to see it, what to do and what not to do", () => {
  const runbook = readRunbook();
  expect([...runbook.keys()]).toEqual(names);
  for (const [alert, text] of runbook) {
    const parts = [...text.matchAll(/^\*\*([^*]+)\*\*/gm)].map(([, part]) => part);
    expect(parts, alert).toEqual(["Meaning.", "See.", "Do.", "Do not"]);
    const see = /^\*\*See\.\*\* (.*)$/m.exec(text)?.[1] ?? "";
    expect(see, `${alert} names a command, or what /readyz shows`).toMatch(/`postern [^`]+`|`\/readyz`/);
    expect(see, `${alert} names a page`).toMatch(/\bpage\b/);
  }
});

const PAGES = DOCUMENTS.filter((page) => page.startsWith("docs/operations/"));

test.each(PAGES)(
  "every command that %s names exists, with the arguments and options that it is given",
  async (page) => {
    for (const command of commandsIn(readDocument(page))) {
      const words = command.split(" ");
      const path = words.slice(0, words.findIndex((word) => /^(-|\/|[A-Z]+$)/.test(word)) >>> 0);
      const { code, stdout, stderr } = await runHere([...path, "--help"]);
      expect([code ?? 0, stderr], command).toEqual([0, ""]);
      expect(stdout, command).toContain(`Usage: postern ${path.join(" ")} `);
      // Other pages name commands inside sentences. Operators copy the runbook's commands, so these must run.
      if (page.endsWith("/runbook.md") && /^Usage: .*</m.test(stdout))
        expect(command, "it needs an argument").toMatch(/ ([A-Z]+|\/\S+)( |$)/);
      for (const option of words.filter((word) => word.startsWith("--"))) expect(stdout).toContain(option);
    }
  },
);

onlyInLongRun(() => {
  test("the rules are right for Prometheus, and so are their tests", needs("promtool"), () => {
    const run = (...args: string[]) => spawnSync(pathOf("promtool"), args, { encoding: "utf8" });
    const check = run("check", "rules", operationsFile("prometheus/rules.yml"));
    expect(check.status, check.stderr).toBe(0);
    const tried = run("test", "rules", operationsFile("prometheus/rules.test.yml"));
    expect(tried.status, tried.stdout + tried.stderr).toBe(0);
  });
});

test("each alert is silent before it fires in its own test", () => {
  const file = parse(readFileSync(operationsFile("prometheus/rules.test.yml"), "utf8"));
  const cases = (file as { tests: { alert_rule_test: Tried[] }[] }).tests.flatMap(
    ({ alert_rule_test: all }) => all,
  );
  for (const name of names) {
    const counts = cases.filter(({ alertname }) => alertname === name).map((each) => each.exp_alerts.length);
    expect(counts[0], name).toBe(0);
    expect(counts.at(-1), name).toBeGreaterThan(0);
  }
});

type Tried = { alertname: string; exp_alerts: unknown[] };
