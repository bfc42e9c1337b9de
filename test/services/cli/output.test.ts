import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { leavesOf } from "../../../services/cli/output-options.ts";
import { buildProgram } from "../../../services/cli/program.ts";
import type { Surroundings } from "../../../services/cli/program-deps.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { jsonLines, problemOf, usePostern } from "../../fixtures/postern.ts";
import { asUser } from "../../fixtures/redis.ts";
import { useScreen } from "../../fixtures/screen.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { needs } from "../../support/needs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere, runHereWith } from "./run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(fixture.redis.url, "operator") } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
}));
const runOnScreen = useScreen(postern);
const here = runHereWith(postern);

const ID = `c_${"0".repeat(32)}`;
const REASON = ["--reason", "a test"];

/** Words that complete each command of the table. The things that they name do not exist. */
const COMMANDS: Record<string, readonly string[]> = {
  "calls list": [],
  "calls show": [ID],
  "calls replay": [ID, ...REASON],
  "calls run-now": [ID],
  "calls forget": [ID, "--yes", ...REASON],
  "failed list": [],
  "failed show": [ID],
  "failed replay": ["--all"],
  "failed discard": ["--all", "--yes", ...REASON],
  "endpoints list": [],
  "jobs list": [],
  "jobs show": ["7/1"],
  "jobs pause": ["7/1", ...REASON],
  "jobs resume": ["7/1"],
  "jobs run-delayed": ["7/1"],
  "rejected list": [],
  "rejected show": ["r_0000"],
  "endpoints disable": ["/nowhere", "--reason", "a test"],
  "endpoints hold": ["/nowhere", "--reason", "a test"],
  "endpoints enable": ["/nowhere"],
  "endpoints open": ["/nowhere"],
  "endpoints close": ["/nowhere"],
  reload: [],
  "redis adopt": ["--without-audit", "--yes", ...REASON],
  "payments list": [],
  "payments show": [ID],
  "payments reconcile": [ID],
  "payments resolve": [ID, "--void", ...REASON],
  "refunds list": [],
  "refunds show": [`r_${"0".repeat(32)}`, "-o", "csv"],
  "refunds export": ["-o", "csv"],
  "refunds check": [],
  "refunds withdraw": [ID, ...REASON],
  "payments audit": ["--from-block", "1"],
  "payments list-spent": [],
  pay: ["http://127.0.0.1:1/x402/jobs/1/1"],
  result: ["http://127.0.0.1:1/x402/calls/c_1/result"],
  quote: ["http://127.0.0.1:1", "--job", "1/1", "--requester", `0x${"1".repeat(40)}`, "--difficulty", "1"],
  "receipt verify": ["/nowhere/answer.json", "--issuer", "http://127.0.0.1:1"],
  "rates list": [],
  status: [],
  "config check": [],
  init: ["--yes", "--force", "--network", "devnet"],
  send: ["/nowhere", "--preset", "github", "--secret", "a secret", "--gateway", "http://127.0.0.1:1"],
  tail: [],
  "callbacks show-secret": ["https://hooks.example.com/told"],
  "redis-acl": ["webhooks"],
  openapi: ["webhooks"],
  "redis remove-node": ["127.0.0.1:1", "--yes"],
};
const NAMES = Object.keys(COMMANDS);
const wordsOf = (name: string): string[] => [...name.split(" "), ...(COMMANDS[name] ?? [])];

/** Commands that read no configuration. */
const UNCONFIGURED = ["pay", "result", "quote", "receipt verify", "init", "send", "redis-acl"];
const configuredBy = (dir: string, name: string): string[] =>
  UNCONFIGURED.includes(name) ? [] : ["--config-dir", dir];

const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "devnet"];

function leaves(): [name: string, options: string[]][] {
  const program = buildProgram({ version: "0", env: {} } as Surroundings);
  return leavesOf(program).map((command) => {
    const parent = command.parent === program ? "" : `${command.parent?.name()} `;
    return [parent + command.name(), command.options.map(({ long }) => long ?? "")];
  });
}

test("every command of the table has -o json and --quiet, except dev, a report and a script", () => {
  const table = leaves();
  for (const [name, options] of table) {
    if (["dev", "refunds report", "completion"].includes(name)) continue;
    expect([name, options]).toEqual([name, expect.arrayContaining(["--output", "--quiet"])]);
  }
  expect(table.map(([name]) => name).toSorted()).toEqual(
    [...SERVICES, "dev", "refunds report", "completion", ...NAMES].toSorted(),
  );
});

test.each(sample(NAMES, 6))(
  "`postern %s -o json` with an invalid command line exits with 2 and prints one problem object",
  async (name) => {
    const ran = await runHere([...wordsOf(name), "-o", "json", "--nope"]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(JSON.parse(ran.stderr)).toMatchObject({
      type: "urn:postern:problem:command.invalid",
      code: "command.invalid",
      detail: expect.stringMatching(/^unknown option '--nope'/),
      exit_code: 2,
    });
  },
);

const CONFIGURED = NAMES.filter(
  (name) => !["quote", "receipt verify", "init", "send", "redis-acl"].includes(name),
);

test.each(sample(CONFIGURED, 6))(
  "`postern %s -o json` without a configuration exits with 3 and prints one problem object",
  async (name) => {
    const ran = await runHere([...wordsOf(name), ...configuredBy("/nowhere", name), "-o", "json"]);
    expect(ran.code).toBe(3);
    expect(JSON.parse(ran.stderr)).toMatchObject({ code: "start.config_invalid", exit_code: 3 });
  },
);

test("`postern quote -o json` without an engine prints one problem object", async () => {
  const ran = await runHere([...wordsOf("quote"), "-o", "json"]);
  expect([ran.code, problemOf(ran)["code"]]).toEqual([1, "command.failed"]);
});

test("`postern init -o json` prints the written files as one object, and with --quiet it prints nothing", async () => {
  const dir = join(tempDir(), "new");
  const ran = await runHere(["init", dir, "--yes", "-o", "json"]);
  expect(ran.code).toBe(0);
  expect(jsonLines(ran)).toEqual([{ config_dir: dir, files: expect.any(Array), valid: true }]);
  const { files } = JSON.parse(ran.stdout) as { files: string[] };
  for (const file of files) expect([file, existsSync(file)]).toEqual([file, true]);
  expect(await runHere(["init", dir, "--yes", "--force", "--quiet"])).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
  });
  const again = await runHere(["init", dir, "--yes", "-o", "json"]);
  expect([again.code, problemOf(again)["detail"]]).toEqual([1, expect.stringContaining("already exist")]);
});

const NEEDS_MORE = [
  "endpoints list",
  "init",
  "tail",
  "pay",
  "result",
  "quote",
  "receipt verify",
  "rates list",
  "payments audit",
  "refunds check",
  "payments list-spent",
  "callbacks show-secret",
  "redis-acl",
  "openapi",
];
const ON_REDIS = NAMES.filter((name) => !NEEDS_MORE.includes(name));

test("`postern redis-acl -o json` prints the rights as one object", async () => {
  const ran = await runHere(["redis-acl", "webhooks", "-o", "json"]);
  expect(jsonLines(ran)).toEqual([{ user: "webhooks", rules: expect.stringContaining("+evalsha") }]);
  const named = await runHere(["redis-acl", "runner", "--name", "shop"]);
  expect(named.stdout).toContain(" resetkeys ~{shop-runner}:* ~{shop}:* ");
});

test("with -o json each command prints only JSON on stdout, and a problem object exactly if its exit code is not 0", async () => {
  for (const name of ON_REDIS) {
    const ran = await runHere([...wordsOf(name), ...configuredBy(postern.configDir, name), "-o", "json"]);
    for (const line of jsonLines(ran)) expect([name, typeof line]).toEqual([name, "object"]);
    if (ran.code === 0) expect([name, ran.stderr]).not.toEqual([name, expect.stringContaining('"type"')]);
    else expect([name, problemOf(ran)]).toMatchObject([name, { exit_code: ran.code }]);
  }
});

test("with --quiet each command that finds nothing prints only problems on stderr", async () => {
  for (const name of sample(ON_REDIS, 12)) {
    const ran = await runHere([...wordsOf(name), ...configuredBy(postern.configDir, name), "--quiet"]);
    expect([name, ran.stdout]).toEqual([name, ""]);
    expect([name, ran.stderr === ""]).toEqual([name, ran.code === 0]);
  }
});

test("a list with --quiet prints its rows and nothing else", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const ran = await here(["failed", "list", "--quiet"]);
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout).toMatch(new RegExp(`^${id} .*\n$`));
});

/** Returns the rows of docs/configuration.md on a command's JSON. */
function rowsOn(name: string): string[] {
  const page = readFileSync(new URL("../../../docs/configuration.md", import.meta.url), "utf8");
  const rows = page.split("\n").filter((line) => /^\| `[a-z]/.test(line));
  return rows.filter((line) => line.split("|")[1]?.includes(`\`${name}\``));
}

/** Returns the fields that docs/configuration.md lists for a command. */
function documentedOf(name: string): string[] {
  const [row = ""] = rowsOn(name);
  return [...(row.split("|")[3] ?? "").matchAll(/`([a-z_0-9]+)`/g)].map(([, member = ""]) => member);
}

test("docs/configuration.md has one row for the JSON of each command", () => {
  for (const name of NAMES.filter((each) => each !== "quote"))
    expect([name, rowsOn(name).length, documentedOf(name).length > 0]).toEqual([name, 1, true]);
});

test("each command's JSON has exactly the fields that docs/configuration.md lists", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const runs: [name: string, words: string[]][] = [
    ["failed list", []],
    ["jobs list", []],
    ["status", []],
    ["config check", []],
    ["jobs pause", ["7/1", ...REASON]],
    ["jobs list", []],
    ["jobs resume", ["7/1"]],
    ["failed replay", [id]],
  ];
  for (const [name, words] of runs) {
    const ran = await runHere([
      ...name.split(" "),
      ...words,
      ...configuredBy(postern.configDir, name),
      "-o",
      "json",
    ]);
    expect([name, ran.code, jsonLines(ran).length]).toEqual([name, 0, 1]);
    const members = jsonLines(ran).flatMap((line) => Object.keys(line));
    expect([name, members.filter((member) => !documentedOf(name).includes(member))]).toEqual([name, []]);
  }
});

test("with -o json each change is one JSON object", async () => {
  const paused = await here(["jobs", "pause", "7/1", "7/2", ...REASON, "-o", "json"]);
  expect(jsonLines(paused)).toMatchObject([
    { job: { job: "7/1", state: "paused" }, changed: true, has_queue: false },
    { job: { job: "7/2", state: "paused" }, changed: true, has_queue: false },
  ]);
  const again = await here(["jobs", "pause", "7/1", ...REASON, "-o", "json"]);
  expect(jsonLines(again)).toMatchObject([{ job: { state: "paused" }, changed: false, has_queue: false }]);
  expect(problemOf(again)).toMatchObject({ code: "command.failed", exit_code: 1 });
  expect(problemOf(again)["detail"]).toMatch(/^7\/1 is already paused since .*: a test$/);
  const resumed = await here(["jobs", "resume", "7/1", "7/2", "-o", "json"]);
  expect(jsonLines(resumed)).toMatchObject([{ job: { job: "7/1", state: "running" }, changed: true }, {}]);
});

test("`postern config check -o json` prints the problems, or otherwise the tasks of each service", async () => {
  const well = await here(["config", "check", "-o", "json"]);
  expect(jsonLines(well)).toEqual([
    {
      config_dir: postern.configDir,
      ...{ valid: true, problems: [], warnings: expect.any(Array) },
      services: {
        ...{
          webhooks: { endpoints: 1 },
          x402: null,
          pricing: null,
          runner: { url: "http://127.0.0.1:8645", own_redis: false },
        },
        operator: { address: "127.0.0.1:9300", tokens: 0 },
      },
    },
  ]);
  postern.configure({ webhooks: { endpoints: [{ path: "a", job_id: 1, auth: "none" }] } });
  const wrong = await here(["config", "check", "-o", "json"]);
  expect(wrong.code).toBe(3);
  expect(jsonLines(wrong)).toMatchObject([{ valid: false, services: null }]);
  expect(jsonLines(wrong)[0]?.["problems"]).toEqual([
    expect.stringMatching(/webhooks\.toml:\d+: .*path: must start/),
  ]);
  expect(problemOf(wrong)).toMatchObject({ code: "start.config_invalid" });
});

onlyInLongRun(() => {
  test("with -o json an unavailable Redis is a problem with its own code", async () => {
    postern.configure({ postern: { redis: { url: "redis://127.0.0.1:1" } } });
    const ran = await here(["status", "-o", "json"]);
    expect([ran.code, ran.stdout]).toEqual([1, ""]);
    expect(problemOf(ran)).toMatchObject({ code: "queue.unavailable", exit_code: 1 });
  });

  test("a service with --quiet logs warnings, and no information", async () => {
    postern.configure({ postern: { redis: { url: "redis://127.0.0.1:1" }, runner: { timeout_ms: 300 } } });
    const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0", "--quiet"]);
    await producer.waitForEvent("redis.unreachable");
    expect(producer.events().filter(({ level }) => level === "info")).toEqual([]);
  });

  test("a service logs readable lines on a screen", needs("script"), async () => {
    postern.configure({ webhooks: { endpoints: [] } });
    const readable = await runOnScreen(["webhooks"], { columns: 80, env: { NO_COLOR: "1" } });
    expect(readable).toMatchObject({ code: 3, shown: expect.stringContaining("service.failed") });
    expect(readable.shown).not.toMatch(/^\{/m);
  });

  test("a service logs JSON lines on a screen with -o json", needs("script"), async () => {
    postern.configure({ webhooks: { endpoints: [] } });
    const { shown } = await runOnScreen(["webhooks", "-o", "json"], { columns: 80 });
    expect(jsonLines({ stdout: shown })).toContainEqual(expect.objectContaining({ event: "service.failed" }));
  });
});
