import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { privateKeyToAccount } from "viem/accounts";
import { afterEach, expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../../shared/config/config-tables.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { type PosternProcess, startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { loadX402Config } from "../../../shared/pricing/load-x402-config.ts";
import { type Answer, send } from "../../support/http.ts";
import { isAlive } from "../../support/is-alive.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { withoutAnvil } from "../../support/without-anvil.ts";

type Ready = {
  webhooks: string;
  redis: string;
  endpoints: { path: string; curl: string }[];
  x402?: string;
  devnet?: { rpc: string; facilitator: string; control: string };
  pricing?: { grpc: string; http: string };
  jobs: { url: string; price: string; pay?: string }[];
};

const PROGRAM = fileURLToPath(new URL("../../../dist/services/cli/main.js", import.meta.url));
const DEVNET_CONFIG = fileURLToPath(new URL("../../../config/devnet", import.meta.url));
/** Some tests start seven processes, and pay. */
const PATIENCE_MS = 120_000;

const running: PosternProcess[] = [];
afterEach(async () => {
  for (const dev of running.splice(0)) await dev.kill("SIGTERM");
});

function startDev(...args: string[]): PosternProcess {
  const { REDIS_URL: _, ...env } = process.env;
  const dev = startProcess({ name: "dev", args: ["dev", ...args], env });
  running.push(dev);
  return dev;
}

async function readyDev(...args: string[]) {
  const dev = startDev(...args);
  return { dev, ready: (await dev.waitForEvent("dev.ready")) as unknown as Ready };
}

function ownConfig(tables: ConfigTables): string {
  const dir = join(tempDir(), "config");
  writeConfig(dir, tables);
  return dir;
}

const address = async (): Promise<string> => `127.0.0.1:${await freePort()}`;

type Request = { host: string; path: string; headers: string[]; body: string };

/** What the command would send, with its words as a shell splits them: a machine need not have curl. */
function toRequest(command: string, shellEnv: NodeJS.ProcessEnv = {}): Request {
  const script = command.replace(/^curl /, "printf '%s\\0' ");
  const [, url = "", ...flags] = execFileSync("sh", ["-c", script], {
    env: shellEnv,
    encoding: "utf8",
  }).split("\0");
  const after = (flag: string) => flags.flatMap((word, i) => (word === flag ? [flags[i + 1] ?? ""] : []));
  const headers = after("-H").flatMap((header) => header.split(/: (.*)/s).slice(0, 2));
  const { host, pathname } = new URL(url);
  return { host, path: pathname, headers, body: after("--data-raw")[0] ?? "" };
}

const run = ({ host, ...sent }: Request): Promise<Answer> => send(host, sent);

/** The same with the last digit of its credential changed: the credential's header comes last. */
function withAnotherCredential(request: Request): Request {
  const credential = request.headers.at(-1) ?? "";
  const last = credential.endsWith("0") ? "1" : "0";
  return { ...request, headers: [...request.headers.slice(0, -1), credential.slice(0, -1) + last] };
}

/** The process ids of the parts, from the lines dev passes on. */
function partPids(dev: PosternProcess): Record<string, number> {
  const started = dev.events("service.started");
  return Object.fromEntries(started.map(({ service, pid }) => [String(service), Number(pid)]));
}

test("without a configuration, each printed curl is answered with 202 and its call reaches the runner", async () => {
  const { dev, ready } = await readyDev();
  expect(ready.endpoints.map(({ path }) => path)).toEqual([
    "/hooks/open",
    "/hooks/bearer",
    "/hooks/hmac",
    "/hooks/api-key",
  ]);
  for (const { curl } of ready.endpoints) {
    const answer = await run(toRequest(curl));
    expect([curl, answer.status]).toEqual([curl, 202]);
    const id = answer.json()["call_id"];
    await dev.waitForEvent("call.injected", { where: ({ callId }) => callId === id });
  }
});

test(
  "without a configuration, jobs are sold on a devnet: each printed pay line buys one, which reaches the runner",
  async () => {
    const { dev, ready } = await readyDev("--service-id", "5");
    expect(ready.jobs.map(({ url }) => url)).toEqual(
      [1, 2, 3].map((job) => `${ready.x402}/x402/jobs/5/${job}`),
    );
    for (const { url, price, pay = "" } of ready.jobs) {
      const asked = await fetch(price);
      expect([price, asked.status]).toEqual([price, 200]);
      const line = pay.replace("npm run postern --", `'${process.execPath}' '${PROGRAM}'`);
      expect(line).toContain(` pay ${url} `);
      await promisify(execFile)("sh", ["-c", `${line} --json`]);
    }
    const paid = dev.events("payment.accepted").map(({ callId }) => callId);
    expect(new Set(paid).size).toBe(3);
    for (const id of paid) await dev.waitForEvent("call.injected", { where: ({ callId }) => callId === id });
  },
  PATIENCE_MS,
);

test("without a configuration, a signed quote says how it is settled, and is paid as it says", async () => {
  const { dev, ready } = await readyDev();
  const [job] = ready.jobs;
  const POSTERN_PAYER_KEY = /POSTERN_PAYER_KEY=(0x[0-9a-f]{64})/.exec(job?.pay ?? "")?.[1] ?? "";
  const { address } = privateKeyToAccount(POSTERN_PAYER_KEY as `0x${string}`);
  const postern = (...args: string[]) =>
    promisify(execFile)(process.execPath, [PROGRAM, ...args], { env: { ...process.env, POSTERN_PAYER_KEY } });
  const ids = job?.url.split("/").slice(-2) ?? [];
  const engine = ready.pricing?.http ?? "";
  const asked = ["--requester", address, "--body", "hi", "--difficulty", "14", "--json"];
  const quote = JSON.parse((await postern("quote", engine, ...ids, ...asked)).stdout);
  expect(quote).toMatchObject({
    x402_endpoint: job?.url,
    settlement_options: [{ amount: "32000", symbol: "USDC" }],
  });
  await postern("pay", quote.x402_endpoint, "--body", "hi", "--quote", quote.quote_header);
  const [paid] = dev.events("payment.accepted");
  expect([paid?.["amount"], dev.events("call.injected").map(({ callId }) => callId)]).toEqual([
    "32000",
    [paid?.["callId"]],
  ]);
});

test("without anvil, dev says so and runs without payments", async () => {
  const { dist, env } = withoutAnvil();
  const { REDIS_URL: _, ...rest } = env;
  const entry = [join(dist, "services/cli/main.js")];
  const dev = startProcess({ name: "dev", args: ["dev"], env: rest, entry });
  running.push(dev);
  const ready = (await dev.waitForEvent("dev.ready")) as unknown as Ready;
  expect(dev.events("dev.without_payments")[0]?.["reason"]).toContain("needs anvil");
  expect([ready.endpoints.length, ready.jobs, ready.x402]).toEqual([4, [], undefined]);
});

test("an operator's own x402.toml is served as it is, on no devnet", async () => {
  const [webhooks, runner, x402] = [await address(), await address(), await address()];
  const token = {
    network: "eip155:84532",
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    symbol: "USDC",
    decimals: 6,
    pay_to: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    rate_per_native_unit: "3200",
    eip3009_name: "USDC",
    eip3009_version: "2",
    rpc_url: "http://127.0.0.1:1",
  };
  const configDir = ownConfig({
    postern: { runner: { url: `http://${runner}`, bind_address: runner } },
    webhooks: { bind_address: webhooks, endpoints: [{ path: "/own", job_id: 1, auth: "none" }] },
    x402: {
      bind_address: x402,
      public_url: "https://jobs.example.com",
      facilitator_url: "http://127.0.0.1:1",
      quote_secret: "an operator's own quote secret",
      accepted_tokens: [token],
    },
    job_pricing: { "9": { "1": "1000000000000000" } },
  });
  const { dev, ready } = await readyDev("--config-dir", configDir);
  expect(ready.jobs).toEqual([
    { url: `http://${x402}/x402/jobs/9/1`, price: `http://${x402}/x402/jobs/9/1/price` },
  ]);
  const price = (await (await fetch(ready.jobs[0]?.price ?? "")).json()) as Record<string, object[]>;
  expect(price["settlement_options"]?.[0]).toMatchObject({ amount: "3200000", pay_to: token.pay_to });
  expect([ready.devnet, Object.keys(partPids(dev)).toSorted()]).toEqual([
    undefined,
    ["producer", "runner", "webhooks", "x402"],
  ]);
});

test("the made-up endpoints refuse what has no credential, or another one", async () => {
  const { ready } = await readyDev();
  for (const { path, curl } of ready.endpoints.filter(({ path }) => path !== "/hooks/open")) {
    const request = toRequest(curl);
    expect([path, (await run({ ...request, headers: [] })).status]).toEqual([path, 401]);
    expect([path, (await run(withAnotherCredential(request))).status]).toEqual([path, 401]);
  }
});

test("SIGTERM ends every part and the private Redis, and dev exits with 0", async () => {
  const { dev, ready } = await readyDev();
  const pids = Object.values(partPids(dev));
  expect(pids).toHaveLength(6);
  expect(await dev.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(pids.filter(isAlive)).toEqual([]);
  for (const url of [ready.redis, ready.devnet?.rpc ?? "", ready.devnet?.facilitator ?? ""]) {
    await expect(send(new URL(url).host, { path: "/" })).rejects.toThrow("ECONNREFUSED");
  }
});

test("a second SIGTERM ends dev at once, and nothing outlives it for long", async () => {
  const { dev, ready } = await readyDev();
  const pids = Object.values(partPids(dev));
  process.kill(dev.pid, "SIGTERM");
  await dev.waitForEvent("service.stopping");
  expect(await dev.kill("SIGTERM")).toEqual({ code: 1, signal: null });
  await eventually("every part has ended", () => pids.filter(isAlive).length === 0);
  for (const url of [ready.redis, ready.devnet?.rpc ?? ""]) {
    await eventually(`nothing answers at ${url}`, () =>
      send(new URL(url).host, { path: "/" }).then(
        () => false,
        () => true,
      ),
    );
  }
});

test("a part that dies takes dev down with exit code 1, and leaves no other part behind", async () => {
  const { dev } = await readyDev();
  const { producer = 0, ...others } = partPids(dev);
  process.kill(producer, "SIGKILL");
  expect(await dev.exit).toEqual({ code: 1, signal: null });
  expect(dev.events("service.failed").at(-1)?.["reason"]).toContain("producer ended by itself (SIGKILL)");
  expect(Object.values(others).filter(isAlive)).toEqual([]);
});

test("an operator's own endpoints are served, and their secrets not printed", async () => {
  const secret = "an-operator's own secret";
  const [own, runner] = [await address(), await address()];
  const configDir = ownConfig({
    postern: {
      redis: { url: "redis://127.0.0.1:1" },
      runner: { url: `http://${runner}`, bind_address: runner },
    },
    webhooks: { bind_address: own, endpoints: [{ path: "/own", job_id: 1, auth: "bearer", secret }] },
  });
  const { dev, ready } = await readyDev("--config-dir", configDir);
  const [endpoint] = ready.endpoints;
  expect((await run(toRequest(endpoint?.curl ?? "", { SECRET: secret }))).status).toBe(202);
  await eventually("the call was injected", () => dev.events("call.injected").length === 1);
  expect(dev.tail()).not.toContain(secret);
  expect([ready.x402, ready.devnet, ready.jobs]).toEqual([undefined, undefined, []]);
});

test("a configuration with problems is told by its own file names, with exit code 3", async () => {
  const configDir = ownConfig({ webhooks: { endpoints: [{ path: "/own", job_id: 1, auth: "bearer" }] } });
  const dev = startDev("--config-dir", configDir);
  expect(await dev.exit).toEqual({ code: 3, signal: null });
  const [failed] = dev.events("service.failed");
  expect(failed?.["reason"]).toContain(`${configDir}/webhooks.toml: endpoints[0].secret: is missing`);
});

test("postern devnet serves on the ports it is given, config/devnet sells for its token, and it ends with exit code 0", async () => {
  const [rpc, facilitator, control] = [await freePort(), await freePort(), await freePort()];
  const ports = [
    "--rpc-port",
    `${rpc}`,
    "--facilitator-port",
    `${facilitator}`,
    "--control-port",
    `${control}`,
  ];
  const devnet = startProcess({ name: "devnet", args: ["devnet", ...ports], env: process.env });
  running.push(devnet);
  await devnet.waitForEvent("service.started");
  const places = (await (await fetch(`http://127.0.0.1:${control}/`)).json()) as Record<string, unknown>;
  expect(places).toMatchObject({
    rpcUrl: `http://127.0.0.1:${rpc}`,
    facilitatorUrl: `http://127.0.0.1:${facilitator}`,
  });
  const { x402, prices } = loadX402Config({ dir: DEVNET_CONFIG, env: {} });
  const { network, token: asset, seller: pay_to } = places;
  expect(x402?.accepted_tokens).toEqual([expect.objectContaining({ network, asset, pay_to, decimals: 6 })]);
  expect([...prices.keys()]).toEqual(["1/1", "1/2", "1/3"]);
  expect((await fetch(`http://127.0.0.1:${facilitator}/supported`)).status).toBe(200);
  expect(await devnet.kill("SIGTERM")).toEqual({ code: 0, signal: null });
});
