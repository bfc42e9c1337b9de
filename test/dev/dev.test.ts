import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { freePort } from "../../shared/child-process/free-port.ts";
import { type PosternProcess, startProcess } from "../../shared/child-process/start-process.ts";
import { type ConfigTables, writeConfig } from "../../shared/config/write-config.ts";
import { eventually } from "../support/eventually.ts";
import { type Answer, send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";

type Ready = { webhooks: string; redis: string; endpoints: { path: string; curl: string }[] };

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

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
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
  expect(pids).toHaveLength(3);
  expect(await dev.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect(pids.filter(isAlive)).toEqual([]);
  await expect(send(new URL(ready.redis).host, { path: "/" })).rejects.toThrow("ECONNREFUSED");
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
  const address = `127.0.0.1:${await freePort()}`;
  const runner = `127.0.0.1:${await freePort()}`;
  const configDir = ownConfig({
    postern: {
      redis: { url: "redis://127.0.0.1:1" },
      runner: { url: `http://${runner}`, bind_address: runner },
    },
    webhooks: { bind_address: address, endpoints: [{ path: "/own", job_id: 1, auth: "bearer", secret }] },
  });
  const { dev, ready } = await readyDev("--config-dir", configDir);
  const [endpoint] = ready.endpoints;
  expect((await run(toRequest(endpoint?.curl ?? "", { SECRET: secret }))).status).toBe(202);
  await eventually("the call was injected", () => dev.events("call.injected").length === 1);
  expect(dev.tail()).not.toContain(secret);
});

test("a configuration with problems is told by its own file names, with exit code 3", async () => {
  const configDir = ownConfig({ webhooks: { endpoints: [{ path: "/own", job_id: 1, auth: "bearer" }] } });
  const dev = startDev("--config-dir", configDir);
  expect(await dev.exit).toEqual({ code: 3, signal: null });
  const [failed] = dev.events("service.failed");
  expect(failed?.["reason"]).toContain(`${configDir}/webhooks.toml: endpoints[0].secret: is missing`);
});
