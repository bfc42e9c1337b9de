import { execFile, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { leavesOf } from "../../services/cli/output-options.ts";
import { buildProgram } from "../../services/cli/program.ts";
import type { Surroundings } from "../../services/cli/program-deps.ts";
import { findAnvil } from "../../services/dev/chain/anvil.ts";
import { spawnChild } from "../../shared/dev/child.ts";
import { type PosternProcess, startProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useEnds } from "../fixtures/ends.ts";
import { ENGINE } from "../fixtures/pricing.ts";
import { freeBase, type Ready, readyOf } from "../services/dev/use-dev.ts";
import { send } from "../support/http.ts";
import { reflectedClient } from "../support/reflected.ts";
import { tempDir } from "../support/temp-dir.ts";

/*
 * Tests an empty project into which npm has installed the packed package. It runs `npx postern dev`, every other
 * command beside it, and every import.
 */
const root = fileURLToPath(new URL("../..", import.meta.url));
const ends = useEnds();
const INSTALLING_MS = 300_000;
/** Timeout for running every command, one after the other, each in a process of its own. */
const COMMANDS_MS = 600_000;

let project: string;

beforeAll(() => {
  project = tempDir();
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  run("npm", "pack", root, "--ignore-scripts", "--silent");
  const packed = String(readdirSync(project).find((name) => name.endsWith(".tgz")));
  install(`./${packed}`);
}, INSTALLING_MS);

function install(...packages: string[]): void {
  run("npm", "install", ...packages, "--prefer-offline", "--no-audit", "--no-fund");
}

function run(command: string, ...args: string[]): string {
  const { error, status, stdout, stderr } = spawnSync(command, args, { cwd: project, encoding: "utf8" });
  if (error) throw error;
  expect(status, stderr).toBe(0);
  return stdout;
}

type Ran = { code: number; stdout: string; stderr: string };

/** Runs the installed program until it exits. */
function postern(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const program = join(project, "node_modules/.bin/postern");
  return new Promise((resolve) => {
    const options = { cwd: project, env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env } };
    execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

/** Starts `npx postern dev`. npx does not pass signals on, so the test stops dev itself. */
async function startDev(path = process.env["PATH"]): Promise<{ dev: PosternProcess; ready: Ready }> {
  const dev = startProcess({
    name: "npx postern dev",
    node: "npx",
    entry: ["--no-install", "postern"],
    args: ["dev", "--port-base", String(await freeBase())],
    cwd: project,
    env: { PATH: path, HOME: process.env["HOME"] },
  });
  const ready = await readyOf(dev);
  const pid = Number(dev.events("dev.ready")[0]?.["pid"]);
  ends.defer(async () => {
    process.kill(pid, "SIGTERM");
    expect(await dev.exit, dev.tail()).toEqual({ code: 0, signal: null });
  });
  return { dev, ready };
}

async function sendWebhook({ webhooks }: Ready): Promise<string> {
  const address = new URL(webhooks).host;
  const answer = await send(address, { path: "/hooks/open", body: "hello" });
  expect(answer.status, answer.text).toBe(202);
  return answer.json<{ call_id: string }>().call_id;
}

test("every import of the installed package exports the function that creates its part", () => {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: object };
  const parts = Object.keys(exports).filter((name) => !name.endsWith(".json"));
  const program = `
    const found = {};
    for (const part of ${JSON.stringify(parts)}) found[part] = Object.keys(await import("postern/" + part.slice(2)));
    console.log(JSON.stringify(found));
    process.exit(0);`;
  const found = JSON.parse(run(process.execPath, "--input-type=module", "-e", program)) as object;
  expect(found).toEqual({
    "./webhooks": expect.arrayContaining(["createWebhooksGateway"]),
    "./x402": expect.arrayContaining(["createX402Gateway"]),
    "./producer": expect.arrayContaining(["createProducer"]),
    "./runner": expect.arrayContaining(["createRunner", "createRouter"]),
    "./pricing": expect.arrayContaining(["createPricingService"]),
  });
});

const PAY = ["pay", "http://127.0.0.1:9/x402/jobs/0/1", "--body", "hi"];
/** Payer of the local chain. */
const PAYER = { POSTERN_PAYER_KEY: "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a" };

test("with only the package installed, npx postern dev accepts webhooks, and pay and devnet name the packages to install", async () => {
  const pay = await postern(PAY, PAYER);
  expect([pay.code, pay.stderr]).toEqual([3, expect.stringMatching(/^ {2}npm install '@x402\/evm@.+'$/m)]);
  const devnet = await postern(["devnet"]);
  expect([devnet.code, devnet.stdout]).toEqual([3, expect.stringContaining('"start.package_missing"')]);
  const { dev, ready } = await startDev();
  expect(ready.x402).toBeUndefined();
  expect(await dev.waitForEvent("call.injected", { where: isOf(await sendWebhook(ready)) })).toBeDefined();
});

const isOf = (id: string) => (event: Readonly<Record<string, unknown>>) => JSON.stringify(event).includes(id);

const NO_CALL = `c_${"0".repeat(32)}`;
const NO_REJECTED = `r_${"0".repeat(19)}`;

type World = { ready: Ready; webhook: string; paid: string; resultUrl: string };
type Case = { args?: (world: World) => readonly string[]; says: RegExp; code?: number };

/**
 * Expected output of each command beside a running dev: its effect or its refusal. `pay`, `tail` and the services that
 * dev runs have their own tests.
 */
const COMMANDS: Readonly<Record<string, Case>> = {
  init: { args: () => ["own", "--accept", "webhooks", "--yes"], says: /the configuration is valid/ },
  "calls list": { args: ({ webhook }) => ["--call", webhook], says: /c_[0-9a-f]{32}/ },
  "calls show": { args: ({ webhook }) => [webhook], says: /injected since/ },
  "calls replay": { args: () => [NO_CALL, "--reason", "x"], says: /c_0{32}/, code: 1 },
  "calls run-now": {
    args: ({ webhook }) => [webhook],
    says: /is not delayed; the call is injected/,
    code: 1,
  },
  "calls forget": { args: () => [NO_CALL, "--reason", "x", "--yes"], says: /c_0{32}/, code: 1 },
  "callbacks show-secret": {
    args: () => ["https://receiver.example"],
    says: /has no \[callbacks\] secret/,
    code: 3,
  },
  "failed list": { says: /0 failed calls/ },
  "failed show": { args: () => [NO_CALL], says: /is unknown: there was no such call/, code: 1 },
  "failed replay": { args: () => ["--all"], says: /replayed 0 calls/ },
  "failed discard": { args: () => ["--all", "--reason", "x", "--yes"], says: /discarded 0 calls/ },
  "endpoints list": { says: /\/hooks\/open .*4 endpoints/s },
  "jobs show": { args: () => ["0/1"], says: /state .*running/ },
  "jobs list": { says: /0\/1 .*running/ },
  "jobs pause": { args: () => ["0/2", "--reason", "x"], says: /0\/2 is paused/ },
  "jobs run-delayed": { args: () => ["0/2"], says: /0\/2 has no delayed calls/, code: 1 },
  "jobs resume": { args: () => ["0/2"], says: /0\/2 is resumed/ },
  "rejected list": { says: /refused requests/ },
  "rejected show": { args: () => [NO_REJECTED], says: /r_0{19}/, code: 1 },
  "endpoints open": { args: () => ["/hooks/open"], says: /does not send its secret in a handshake/, code: 2 },
  "endpoints close": { args: () => ["/hooks/open"], says: /is not open/, code: 1 },
  "endpoints hold": { args: () => ["/hooks/open", "--reason", "x"], says: /held at all gateways/ },
  "endpoints disable": { args: () => ["/hooks/open", "--reason", "x"], says: /disabled at all gateways/ },
  "endpoints enable": { args: () => ["/hooks/open"], says: /enabled at all gateways/ },
  send: { args: () => ["/hooks/bearer"], says: /202/ },
  "payments list": { says: /1 payment\n/ },
  "payments show": { args: ({ paid }) => [paid], says: /injected since/ },
  "payments reconcile": { args: ({ paid }) => [paid], says: /injected/ },
  "payments resolve": {
    args: ({ paid }) => [paid, "--void", "--reason", "x"],
    says: /only a payment in review can be resolved/,
    code: 1,
  },
  "refunds list": { says: /0 refunds due/ },
  "refunds report": { says: /^call_id,/ },
  "refunds export": { args: () => ["-o", "csv"], says: /nothing was exported: 0 refunds due/ },
  "refunds show": {
    args: () => [`r_${"0".repeat(32)}`, "-o", "csv"],
    says: /there is no export/,
    code: 1,
  },
  "refunds check": { says: /0 refunds closed, 0 not yet on the chain, 0 not checked/ },
  "refunds withdraw": {
    args: ({ paid }) => [paid, "--reason", "x"],
    says: /only a pending refund/,
    code: 1,
  },
  "payments audit": { args: () => ["--from-block", "0"], says: /1 matched, 0 orphans/ },
  "payments list-spent": { says: /0 payments already spent/ },
  result: { args: ({ resultUrl }) => [resultUrl], says: /^hi$/m },
  quote: {
    args: ({ ready }) => [String(ready.pricing?.http), "--job", "0/1", "--requester", `0x${"2".repeat(40)}`],
    says: /signed by: 0x/,
  },
  "receipt verify": {
    args: () => ["package.json", "--issuer", "https://jobs.example.com"],
    says: /package\.json has no receipt/,
    code: 1,
  },
  "rates list": { says: /USDC .*3200/ },
  status: { says: /webhook .*\n.*x402 / },
  reload: { says: /the configuration is in force/ },
  "redis remove-node": { args: () => ["127.0.0.1:1", "--yes"], says: /neither sentinels nor nodes/, code: 1 },
  "redis adopt": {
    args: () => ["--without-audit", "--reason", "x", "--yes"],
    says: /adopted for deployment/,
  },
  "redis-acl": { args: () => ["producer"], says: /^ACL SETUSER producer/ },
  openapi: { args: () => ["webhooks"], says: /"openapi": "3.1.0"/ },
  completion: { args: () => ["bash"], says: /complete -F _postern postern/ },
  "config check": { says: /the configuration is valid; webhooks gateway: 4 endpoints/ },
};

const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "devnet"];

describe("with the packages that postern pay requires", () => {
  let dev: PosternProcess;
  let world: World;

  beforeAll(async () => {
    const { stderr } = await postern(PAY, PAYER);
    const [, packages = ""] = /^ {2}npm install (.+)$/m.exec(stderr) ?? [];
    install(...packages.replaceAll("'", "").split(" "));
    const anvil = dirname(findAnvil(process.env));
    const started = await startDev(`${anvil}${delimiter}${process.env["PATH"]}`);
    ({ dev } = started);
    world = { ready: started.ready, webhook: await sendWebhook(started.ready), paid: "", resultUrl: "" };
    await dev.waitForEvent("call.injected", { where: isOf(world.webhook) });
    const bought = await postern(
      ["pay", `${world.ready.x402}/x402/jobs/0/1`, "--body", "hi", "-o", "json"],
      PAYER,
    );
    expect(bought.code, bought.stderr).toBe(0);
    const steps = bought.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, string>);
    expect(steps.at(-1)).toMatchObject({ outcome: "injected", result: { status: 200 } });
    const accepted = steps.find(({ step }) => step === "accepted");
    world.paid = String(accepted?.["call_id"]);
    world.resultUrl = String(accepted?.["result_url"]);
  }, INSTALLING_MS);

  const env = () => ({ POSTERN_CONFIG_DIR: world.ready.config, ...PAYER });

  test("npx postern dev starts every service, and postern pay has bought a job", () => {
    const started = dev.events("service.started").map(({ service }) => service);
    expect(started.sort()).toEqual([...SERVICES].sort());
    expect(world.paid).toMatch(/^c_/);
  });

  test("the pricing engine answers health and reflection requests over gRPC", async () => {
    const client = reflectedClient(String(world.ready.pricing?.grpc));
    ends.defer(client.close);
    expect(await client.services()).toEqual(expect.arrayContaining([ENGINE, "grpc.health.v1.Health"]));
    const health = await client.call("grpc.health.v1.Health", "Check", { service: ENGINE });
    expect(health.response).toEqual({ status: "SERVING" });
  });

  test("postern tail shows a call, and exits on Ctrl-C", async () => {
    const lines: string[] = [];
    const tail = spawnChild({
      command: join(project, "node_modules/.bin/postern"),
      args: ["tail", "-o", "json"],
      env: { PATH: process.env["PATH"], ...env() },
      onLine: (line) => lines.push(line),
    });
    await eventually("tail shows a call", async () => {
      const id = await sendWebhook(world.ready);
      await dev.waitForEvent("call.injected", { where: isOf(id) });
      return lines.some((line) => line.includes(id));
    });
    expect(await tail.kill("SIGINT")).toEqual({ code: 0, signal: null });
  });

  test("every other command works, or explains why it cannot", { timeout: COMMANDS_MS }, async () => {
    const program = buildProgram({ version: "0", env: {} } as Surroundings);
    const all = leavesOf(program).map((command) =>
      command.parent === program ? command.name() : `${command.parent?.name()} ${command.name()}`,
    );
    expect(all.sort()).toEqual([...Object.keys(COMMANDS), ...SERVICES, "dev", "pay", "tail"].sort());
    const wrong: unknown[] = [];
    for (const [name, { args = () => [], says, code = 0 }] of Object.entries(COMMANDS)) {
      const ran = await postern([...name.split(" "), ...args(world)], env());
      if (ran.code !== code || !says.test(ran.stdout + ran.stderr)) wrong.push({ name, ...ran });
    }
    expect(wrong).toEqual([]);
  });
});
