import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../shared/config/config-tables.ts";
import { spawnChild, waitUntilAnswers } from "../../shared/dev/child.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { commandsIn, operationsFile, readRunbook } from "../docs/operations.ts";
import { useEnds } from "../fixtures/ends.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { usePostern } from "../fixtures/postern.ts";
import { useRedis } from "../fixtures/redis.ts";
import { runHereWith } from "../services/cli/run-here.ts";
import { canConnect, send } from "../support/http.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";

const PATH = "/hooks/orders";
const OPS = ["--ops-address", "127.0.0.1:0"];

/**
 * Runs Prometheus with the shipped rules on these processes. Alerts fire at once: rules.test.yml tests their delays.
 */
async function startPrometheus(targets: readonly string[]) {
  const dir = tempDir();
  const rules = readFileSync(operationsFile("prometheus/rules.yml"), "utf8");
  writeFileSync(join(dir, "rules.yml"), rules.replaceAll(/for: \d+[mh]$/gm, "for: 1s"));
  const global = { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" };
  const scrape = { job_name: "postern", static_configs: [{ targets }] };
  const config = { global, rule_files: ["rules.yml"], scrape_configs: [scrape] };
  writeFileSync(join(dir, "prometheus.yml"), JSON.stringify(config)); // JSON is YAML
  const port = await freePort();
  const args = [
    `--config.file=${join(dir, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(dir, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const child = spawnChild({ command: pathOf("prometheus"), args, env: process.env });
  await waitUntilAnswers("prometheus", child, () => canConnect(port));
  return {
    stop: () => child.kill("SIGTERM"),
    /** Returns the names of the firing alerts. */
    async firing(): Promise<string[]> {
      const answer = await send(`127.0.0.1:${port}`, { method: "GET", path: "/api/v1/alerts" });
      if (answer.status !== 200) return []; // Prometheus is still starting
      const { data } = answer.json<{
        data: { alerts: { labels: { alertname: string }; state: string }[] };
      }>();
      return data.alerts.filter(({ state }) => state === "firing").map(({ labels }) => labels.alertname);
    },
  };
}

/** Expected output of a runbook command, and its exit code if that is not 0. */
type Shown = { says: RegExp; code?: number };

type Incident = {
  /** Values of the placeholders (capital words) in the commands. */
  names?: Readonly<Record<string, string>>;
  /** Expected output of each command of the paragraph "See.", in order. */
  see: readonly Shown[];
  /** Performs what the paragraph "Do." requires besides its commands. */
  repair: () => unknown;
  /** Expected output of each command of the paragraph "Do.", in order. */
  act: readonly Shown[];
};

describe("the runbook", needs("prometheus"), () => {
  const redis = useRedis();
  const runner = useFakeRunner();
  const tables = (runnerUrl = runner.url): ConfigTables => ({
    postern: { drain_secs: 0, redis: { url: redis.url }, runner: { url: runnerUrl, timeout_ms: 2000 } },
    webhooks: { endpoints: [{ path: PATH, job_id: 1, auth: "none" }] },
  });
  const postern = usePostern(tables);
  const here = runHereWith(postern);
  const ends = useEnds();
  let gateway: string;
  let prometheus: Awaited<ReturnType<typeof startPrometheus>>;

  beforeAll(async () => {
    const processes = [
      postern.start(["webhooks", "--bind-address", "127.0.0.1:0", ...OPS]),
      postern.start(["producer", ...OPS]),
    ];
    const started = await Promise.all(processes.map((each) => each.waitForEvent("service.started")));
    gateway = String(started[0]?.["address"]);
    prometheus = await startPrometheus(started.map(({ opsAddress }) => String(opsAddress)));
    ends.defer(prometheus.stop);
  });

  async function deliver(body: string): Promise<string> {
    const answer = await send(gateway, { path: PATH, body });
    expect(answer.status).toBe(202);
    return String(answer.json()["call_id"]);
  }

  const untilRun = (body: string, times = 1) =>
    eventually(`the call ${body} has run`, () => {
      const runs = runner.offers.filter((offer) => offer.body.toString() === body);
      return runs.length === times;
    });

  /** Runs the commands of one paragraph in an alert's section, exactly as written. */
  async function type(
    alert: string,
    paragraph: string,
    shown: readonly Shown[],
    names: Incident["names"] = {},
  ): Promise<void> {
    const section = readRunbook().get(alert) ?? "";
    const text = section.split("\n\n").find((block) => block.startsWith(`**${paragraph}**`)) ?? "";
    const commands = commandsIn(text);
    expect(commands, `${alert} ${paragraph}`).toHaveLength(shown.length);
    for (const [i, command] of commands.entries()) {
      const words = command.split(" ").map((word) => names[word] ?? word);
      const { code, stdout, stderr } = await here(words, {}, { canAsk: true, ask: async () => "yes" });
      const { says, code: expected = 0 } = shown[i] as Shown;
      expect(stdout + stderr, `${alert}: ${command}`).toMatch(says);
      expect(code ?? 0, `${alert}: ${command}\n${stdout}${stderr}`).toBe(expected);
    }
  }

  /** Checks that the alert fires, that its section shows the reason, and that the section's commands end the alert. */
  async function follow(alert: string, { names, see, repair, act }: Incident): Promise<void> {
    await eventually(`${alert} fires`, async () => (await prometheus.firing()).includes(alert));
    await type(alert, "See.", see, names);
    await repair();
    await type(alert, "Do.", act, names);
    await eventually(`${alert} has ended`, async () => !(await prometheus.firing()).includes(alert));
  }

  test("shows a runner that cannot be reached, and its calls run once its address is corrected", async () => {
    writeConfig(postern.configDir, tables(`http://127.0.0.1:${await freePort()}`));
    await here(["reload"]);
    await deliver("for a runner that is away");
    await follow("PosternRunnerAway", {
      see: [{ says: /RUNNER +STATE.*\n.*default +unreachable/ }, { says: /JOB +.*WAITING.*\n0\/1 .*1/ }],
      repair: () => writeConfig(postern.configDir, tables()),
      act: [{ says: /producer .*: the configuration is in force/ }],
    });
    await untilRun("for a runner that is away");
  });

  test("shows which configuration was refused, and applies the corrected one", async () => {
    writeFileSync(join(postern.configDir, "webhooks.toml"), "endpoints = 3\nunknown = 4\n");
    await here(["reload"]);
    await follow("PosternConfigurationRefused", {
      see: [
        { says: /not in force.*webhooks\.toml:1/ },
        { says: /webhooks\.toml:1.*\n.*webhooks\.toml:2/, code: EXIT.config },
      ],
      repair: () => writeConfig(postern.configDir, tables()),
      act: [{ says: /webhooks .*: the configuration is in force/ }],
    });
    await deliver("after the correction");
    await untilRun("after the correction");
  });

  test("shows why calls have failed, discards one, and replays the other", async () => {
    runner.answer = () => ({ status: 422, body: "the table orders is missing" });
    const [dropped] = [await deliver("not needed"), await deliver("needed")];
    await eventually("both have failed", async () =>
      (await here(["failed", "list"])).stdout.includes("2 failed calls"),
    );
    await follow("PosternCallsFailed", {
      names: { ID: dropped, JOB: "0/1", TEXT: "a test" },
      see: [
        { says: /runner\.refused[\s\S]*runner\.refused[\s\S]*2 failed calls/ },
        { says: /the table orders is missing/ },
      ],
      repair: () => {
        runner.answer = () => ({ status: 200 });
      },
      act: [{ says: /discarded 1 call\b/ }, { says: /replayed 1 call\b/ }],
    });
    await untilRun("needed", 2);
    await untilRun("not needed", 1);
  });
});
