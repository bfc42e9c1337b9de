import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { beforeAll, describe, expect, test } from "vitest";
import { createResults } from "../../../shared/call/results/store.ts";
import { hasConfigFiles } from "../../../shared/config/config-dir.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { jsonLines, usePostern } from "../../fixtures/postern.ts";
import { type Answer, send } from "../../support/http.ts";
import { isAlive } from "../../support/is-alive.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { withoutAnvil } from "../../support/without-anvil.ts";
import { runHere } from "../cli/run-here.ts";
import { apart, partPids, type Ready, readyOf, startDev } from "./use-dev.ts";

/** Timeout. One test pays for three jobs on a chain that makes a block each second. */
const PATIENCE_MS = 300_000;

const postern = usePostern();
const ends = useEnds();

const address = async (): Promise<string> => `127.0.0.1:${await freePort()}`;

type Request = { host: string; path: string; headers: string[]; body: string };

/** Splits a command into words as a shell does. */
function toWords(words: string, env: NodeJS.ProcessEnv = {}): string[] {
  const printed = execFileSync("sh", ["-c", `printf '%s\\0' ${words}`], { env, encoding: "utf8" });
  return printed.split("\0").slice(0, -1);
}

/** Parses a printed curl command into a request, because a machine need not have curl. */
function toRequest(command: string, shellEnv: NodeJS.ProcessEnv = {}): Request {
  const [, url = "", ...flags] = toWords(command.replace(/^curl /, ""), shellEnv);
  const after = (flag: string) => flags.flatMap((word, i) => (word === flag ? [flags[i + 1] ?? ""] : []));
  const headers = after("-H").flatMap((header) => header.split(/: (.*)/s).slice(0, 2));
  const { host, pathname } = new URL(url);
  return { host, path: pathname, headers, body: after("--data-raw")[0] ?? "" };
}

/** Parses a printed line into the environment and the arguments of the program. */
function toCommand(line: string): [env: NodeJS.ProcessEnv, args: string[]] {
  const [, variables = "", words = ""] = /^(.*?)postern (.*)$/s.exec(line) ?? [];
  const env = toWords(variables).flatMap((word) => (word === "" ? [] : [word.split(/=(.*)/s).slice(0, 2)]));
  return [Object.fromEntries(env), toWords(words)];
}

const run = ({ host, ...sent }: Request): Promise<Answer> => send(host, sent);

/** Changes the last digit of the request's credential, whose header comes last. */
function withAnotherCredential(request: Request): Request {
  const credential = request.headers.at(-1) ?? "";
  const last = credential.endsWith("0") ? "1" : "0";
  return { ...request, headers: [...request.headers.slice(0, -1), credential.slice(0, -1) + last] };
}

function stillAlive(pids: Record<string, number>): string[] {
  return Object.keys(pids).filter((part) => isAlive(pids[part] ?? -1));
}

async function answersNothing(url: string): Promise<void> {
  await eventually(`nothing answers at ${url}`, () =>
    send(new URL(url).host, { path: "/" }).then(
      () => false,
      () => true,
    ),
  );
}

/** Occupies the port, unless another program already has it. */
async function take(port: number): Promise<void> {
  const taker = createServer().listen(port, "127.0.0.1");
  ends.defer(() => taker.close());
  await once(taker, "listening").catch(() => {});
}

/** Port of the webhooks gateway. */
const USUAL_PORT = 9090;

type Overview = { processes: { kind: string }[] };

describe("dev without a configuration", () => {
  let dev: PosternProcess;
  let ready: Ready;
  const runtime = tempDir();
  beforeAll(async () => {
    const cwd = tempDir();
    mkdirSync(join(cwd, "config"));
    writeFileSync(join(cwd, "config/webhooks.toml"), '# secret = "env:POSTERN_GITHUB_SECRET"\n');
    await take(USUAL_PORT);
    const secret = "a secret of the GitHub endpoint";
    const own = { POSTERN_CONFIG_DIR: "", XDG_RUNTIME_DIR: runtime };
    const env = { ...own, POSTERN_GITHUB_SECRET: secret, POSTERN_DELIVR_TO: "x" };
    dev = startDev(postern, ["--service-id", "5"], { cwd, env });
    ready = await readyOf(dev);
  });

  test("dev without --config-dir names the directory that other commands read and dev does not, even if it has only webhooks.toml", () => {
    expect(dev.events("dev.config_not_read").map(({ reason }) => reason)).toEqual([
      "postern dev does not read the files in config; to use them, run postern dev --config-dir config",
    ]);
  });

  test("dev without a configuration warns once about a misspelt variable, but not about one that a configuration may use", () => {
    const warnings = dev.events("config.warning").map(({ warning }) => String(warning));
    expect(warnings.filter((warning) => warning.startsWith("POSTERN_"))).toEqual([
      "POSTERN_DELIVR_TO: this variable is not used; did you mean POSTERN_DELIVER_TO?",
    ]);
  });

  test("dev without a configuration says for each usual port that is in use what listens elsewhere", () => {
    const { webhooks, x402 = "", runner, pricing, devnet, operator } = ready;
    const places = [
      ["the webhooks gateway", USUAL_PORT, webhooks],
      ["the payment gateway", 8402, x402],
      ["the runner", 8645, runner],
      ["the pricing engine over HTTP", 8404, pricing?.http],
      ["the pricing engine over gRPC", 50_051, pricing?.grpc],
      ["the chain", 8545, devnet?.rpc],
      ["the facilitator", 8546, devnet?.facilitator],
      ["the devnet's control port", 8547, devnet?.control],
      ["the console", 9300, operator],
    ] as const;
    const moved = places
      .map(([what, usual, at = ""]) => ({ what, usual, port: Number(at.split(":").at(-1)) }))
      .filter(({ usual, port }) => port !== usual);
    expect(moved[0]?.what).toBe("the webhooks gateway");
    expect(ready.notes.toSorted()).toEqual(
      moved
        .map(({ what, usual, port }) => `port ${usual} is taken; ${what} listens on ${port} instead`)
        .toSorted(),
    );
  });

  test("dev without a configuration prints curl commands that are answered with 202, and whose calls reach the runner", async () => {
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

  test("dev without a configuration prints the link to the console, which shows the parts to any user of this machine", async () => {
    expect(await (await fetch(ready.operator)).text()).toContain("<script");
    const overview = (await (await fetch(`${ready.operator}/api/v1/overview`)).json()) as Overview;
    expect(overview.processes.map(({ kind }) => kind).toSorted()).toEqual([
      "operator",
      "pricing",
      "producer",
      "runner",
      "webhooks",
      "x402",
    ]);
  });

  test("dev without a configuration has the results of long jobs delivered", async () => {
    const { curl = "" } = ready.endpoints.find(({ path }) => path === "/hooks/api-key") ?? {};
    const callId = String((await run(toRequest(curl))).json()["call_id"]);
    const redis = connectForWork({ url: new Secret(ready.redis) }, silentLogger);
    const results = createResults(partitionOf(redis));
    const read = await eventually("the result is there", async () => {
      const found = await results.read(callId);
      return found.kind === "answer" ? found : undefined;
    });
    redis.disconnect();
    expect(JSON.parse(read.body.toString())).toMatchObject({ steps: expect.any(Number) });
  });

  test("dev without a configuration has endpoints that refuse a request without a credential or with a wrong one", async () => {
    for (const { path, curl } of ready.endpoints.filter(({ path }) => path !== "/hooks/open")) {
      const request = toRequest(curl);
      expect([path, (await run({ ...request, headers: [] })).status]).toEqual([path, 401]);
      expect([path, (await run(withAnotherCredential(request))).status]).toEqual([path, 401]);
    }
  });

  test("dev without a configuration sells jobs on a devnet: each printed pay command buys one, which reaches the runner", {
    timeout: PATIENCE_MS,
  }, async () => {
    expect(ready.jobs.map(({ url }) => url)).toEqual(
      [1, 2, 3].map((job) => `${ready.x402}/x402/jobs/5/${job}`),
    );
    expect(ready.jobs.map(({ name }) => name)).toEqual(["echo", "keccak256", "slow"]);
    expect(await (await fetch(ready.jobs[2]?.schema ?? "")).json()).toHaveProperty("properties.steps");
    const buy = async ({ url, price, pay = "" }: Ready["jobs"][number]) => {
      const asked = await fetch(price);
      expect([price, asked.status]).toEqual([price, 200]);
      const [env, args] = toCommand(pay);
      expect(args.slice(0, 2)).toEqual(["pay", url]);
      const ran = await runHere([...args, "-o", "json"], env);
      expect([url, ran.code]).toEqual([url, 0]);
      return jsonLines(ran).at(-1)?.["call_id"];
    };
    const jobs = sample(ready.jobs);
    const bought = await Promise.all(jobs.map(buy));
    expect(new Set(bought).size).toBe(jobs.length);
    for (const id of bought)
      await dev.waitForEvent("call.injected", { where: ({ callId }) => callId === id });
  });

  onlyInLongRun(() => {
    test("dev without a configuration signs quotes with settlement options, and these can be used to pay", async () => {
      const [job] = ready.jobs;
      const [env] = toCommand(job?.pay ?? "");
      const { address } = privateKeyToAccount(env["POSTERN_PAYER_KEY"] as `0x${string}`);
      const id = job?.url.split("/").slice(-2).join("/") ?? "";
      const asked = ["--requester", address, "--body", "hi", "--difficulty", "14", "-o", "json"];
      const quoted = await runHere(["quote", ready.pricing?.http ?? "", "--job", id, ...asked]);
      const quote = JSON.parse(quoted.stdout);
      expect(quote).toMatchObject({
        x402_endpoint: job?.url,
        settlement_options: [{ amount: "32000", symbol: "USDC" }],
      });
      const pay = ["pay", quote.x402_endpoint, "--body", "hi", "--quote", quote.quote_header, "-o", "json"];
      const paid = jsonLines(await runHere(pay, env)).at(-1);
      expect(paid).toMatchObject({ outcome: "injected", amount: "32000" });
      const ofThisCall = { where: ({ callId }: Record<string, unknown>) => callId === paid?.["call_id"] };
      expect(await dev.waitForEvent("payment.accepted", ofThisCall)).toMatchObject({ amount: "32000" });
      await dev.waitForEvent("call.injected", ofThisCall);
    });

    test("postern status without a configuration directory shows the running dev, and says so", async () => {
      const cwd = tempDir();
      writeConfig(join(cwd, "config"), { postern: { redis: { url: "redis://127.0.0.1:1" } } });
      const env = { XDG_RUNTIME_DIR: runtime, POSTERN_CONFIG_DIR: undefined };
      const ran = await postern.run(["status", "-o", "json"], { cwd, env });
      expect([ran.code, ran.stderr]).toEqual([
        ...[0, `this is the running postern dev (process ${dev.pid}): --config-dir ${ready.config}\n`],
      ]);
      const kinds = (JSON.parse(ran.stdout).processes as { kind: string }[]).map(({ kind }) => kind);
      expect(kinds).toEqual(expect.arrayContaining(["producer", "webhooks"]));
    });
  });

  // This test comes last, because it ends the dev of the tests before.
  test("SIGTERM ends every part of dev and its private Redis, and dev exits with 0", async () => {
    const pids = partPids(dev);
    expect(Object.keys(pids)).toHaveLength(7);
    expect(await dev.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(stillAlive(pids)).toEqual([]);
    expect(readdirSync(join(runtime, "postern"))).toEqual([]);
    for (const url of [ready.redis, ready.devnet?.rpc ?? "", ready.devnet?.facilitator ?? ""]) {
      await expect(send(new URL(url).host, { path: "/" })).rejects.toThrow("ECONNREFUSED");
    }
  });
});

/** Checks that everything that dev has started ends soon. */
async function leavesNothing(ready: Ready, pids: Record<string, number>): Promise<void> {
  await eventually("every part has ended", () => stillAlive(pids).length === 0).catch(() =>
    expect(stillAlive(pids)).toEqual([]),
  );
  for (const url of [ready.redis, ready.devnet?.rpc ?? ""]) await answersNothing(url);
}

onlyInLongRun(() => {
  test("dev exits with 3 if --config-dir does not exist, and starts nothing instead", async () => {
    const dir = join(postern.configDir, "misspelt");
    const dev = startDev(postern, ["--config-dir", dir]);
    expect(await dev.exit).toEqual({ code: 3, signal: null });
    const [failed] = dev.events("service.failed");
    expect(failed?.["reason"]).toContain(
      `there is no directory ${dir}: give the right one with --config-dir`,
    );
    expect(dev.events("service.started")).toEqual([]);
  });

  test("dev exits with 3 on an invalid configuration, and names its files", async () => {
    postern.configure({ webhooks: { endpoints: [{ path: "/own", job_id: 1, auth: "bearer" }] } });
    const dev = startDev(postern, ["--config-dir", postern.configDir]);
    expect(await dev.exit).toEqual({ code: 3, signal: null });
    const [failed] = dev.events("service.failed");
    expect(failed?.["reason"]).toContain(
      `${postern.configDir}/webhooks.toml:1: endpoint /own: secret: is missing`,
    );
  });

  test("a second SIGTERM ends dev at once, its parts end soon after, and its folder of secrets is deleted", async () => {
    const dev = startDev(postern);
    const ready = await readyOf(dev);
    const pids = partPids(dev);
    process.kill(dev.pid, "SIGTERM");
    await dev.waitForEvent("service.stopping");
    expect(await dev.kill("SIGTERM")).toEqual({ code: 1, signal: null });
    expect(existsSync(dirname(ready.config))).toBe(false);
    await leavesNothing(ready, pids);
  });

  test("a closed terminal, which sends SIGHUP more than once, ends dev in order, with every part", async () => {
    const dev = startDev(postern);
    await readyOf(dev);
    const pids = partPids(dev);
    process.kill(dev.pid, "SIGHUP");
    await dev.waitForEvent("service.stopping", { where: ({ service }) => service === "dev" });
    expect(await dev.kill("SIGHUP")).toMatchObject({ code: 0 });
    expect(stillAlive(pids)).toEqual([]);
  });

  test("SIGKILL of dev leaves no part, no Redis and no chain behind", async () => {
    const dev = startDev(postern);
    const ready = await readyOf(dev);
    const pids = partPids(dev);
    expect(Object.keys(pids)).toHaveLength(7);
    expect(await dev.kill("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
    await leavesNothing(ready, pids);
  });

  test("dev without anvil says so, runs without payments, and has no note on a port of the chain", async () => {
    await take(8545);
    const { dist, env } = withoutAnvil();
    const dev = startDev(postern, [], { env, entry: [join(dist, "services/cli/main.js")] });
    const ready = await readyOf(dev);
    expect(dev.events("dev.without_payments")[0]?.["reason"]).toContain("needs anvil");
    expect([ready.endpoints.length, ready.jobs, ready.x402]).toEqual([4, [], undefined]);
    expect(ready.notes.filter((note) => note.startsWith("port 8545 "))).toEqual([]);
  });

  test("dev without the packages of the devnet says what to install and runs without payments", async () => {
    const { dist, env } = withoutAnvil("viem");
    const dev = startDev(postern, [], { env, entry: [join(dist, "services/cli/main.js")] });
    const ready = await readyOf(dev);
    expect(dev.events("dev.without_payments")[0]?.["reason"]).toContain("npm install 'viem@");
    expect([ready.endpoints.length, ready.jobs, ready.x402]).toEqual([4, [], undefined]);
  });

  test("dev uses an operator's own x402.toml unchanged, without a devnet", async () => {
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
    postern.configure({
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
    const dev = startDev(postern, ["--config-dir", postern.configDir]);
    const ready = await readyOf(dev);
    expect(ready.jobs).toEqual([
      { url: `http://${x402}/x402/jobs/9/1`, price: `http://${x402}/x402/jobs/9/1/price` },
    ]);
    const price = (await (await fetch(ready.jobs[0]?.price ?? "")).json()) as Record<string, object[]>;
    expect(price["settlement_options"]?.[0]).toMatchObject({ amount: "3200000", pay_to: token.pay_to });
    expect([ready.devnet, Object.keys(partPids(dev)).toSorted()]).toEqual([
      undefined,
      ["operator", "producer", "runner", "webhooks", "x402"],
    ]);
    expect(ready.notes).toContain(
      "no local chain was started: x402.toml has no token of eip155:84532 whose facilitator and rpc_url are on this machine",
    );
  });

  describe("dev with an operator's own endpoints", () => {
    const secret = "an-operator's own secret";
    const ofGithub = { POSTERN_OF_GITHUB: secret };
    let dev: PosternProcess;
    let ready: Ready;
    beforeAll(async () => {
      const [own, runner] = [await address(), await address()];
      postern.configure({
        postern: {
          redis: { url: "redis://127.0.0.1:1" },
          runner: { url: `http://${runner}`, bind_address: runner },
        },
        webhooks: {
          bind_address: own,
          endpoints: [
            { path: "/own", job_id: 1, auth: "bearer", secret },
            { path: "/github", job_id: 1, preset: "github", secret: "env:POSTERN_OF_GITHUB" },
          ],
        },
      });
      dev = startDev(postern, ["--config-dir", postern.configDir, ...(await apart())], { env: ofGithub });
      ready = await readyOf(dev);
    });

    test("dev serves an operator's own endpoints, does not print their secrets, and sells nothing", async () => {
      const [endpoint] = ready.endpoints;
      const [env, args] = toCommand(endpoint?.send ?? "");
      const { stdout } = await runHere([...args, "-o", "json"], { ...env, ...ofGithub });
      expect(stdout).toContain('"status":202');
      await eventually("the call was injected", () => dev.events("call.injected").length === 1);
      expect(dev.tail()).not.toContain(secret);
      expect([ready.x402, ready.devnet, ready.jobs]).toEqual([undefined, undefined, []]);
      expect(ready.notes).toContain(
        "payments are off: your configuration has no x402.toml (config/devnet in a clone has one for the local chain)",
      );
    });

    test("dev prints a command that signs and sends like the sender of an operator's own endpoint", async () => {
      const [, github] = ready.endpoints;
      const [env, args] = toCommand(github?.send ?? "");
      expect(await runHere([...args, "-o", "json"], { ...env, ...ofGithub })).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('"status":202'),
      });
    });

    // This test comes last, because it ends the dev of the test before.
    test("if a part dies, dev exits with code 1, and leaves no other part behind", async () => {
      const { producer = 0, ...others } = partPids(dev);
      process.kill(producer, "SIGKILL");
      expect(await dev.exit).toEqual({ code: 1, signal: null });
      expect(dev.events("service.failed").at(-1)?.["reason"]).toContain(
        "producer ended unexpectedly (SIGKILL)",
      );
      expect([Object.keys(others).length, stillAlive(others)]).toEqual([3, []]);
      await answersNothing(ready.redis);
    });
  });
});

test("dev reports an unread folder for each of our file names, but not for another program's files", () => {
  for (const name of ["postern", "webhooks", "x402", "pricing", "job_pricing", "operator"]) {
    const dir = tempDir();
    writeFileSync(join(dir, "app.toml"), "");
    expect([name, hasConfigFiles(dir)]).toEqual([name, false]);
    writeFileSync(join(dir, `${name}.toml`), "");
    expect([name, hasConfigFiles(dir)]).toEqual([name, true]);
  }
  expect(hasConfigFiles("/does/not/exist")).toBe(false);
});
