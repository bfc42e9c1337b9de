import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { freePort } from "../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { LAYOUT, RELEASE } from "../../shared/redis/layout.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { blocksOf, readDocument } from "../docs/blocks.ts";
import { TWO_TOKENS } from "../fixtures/console.ts";
import { jsonLines, usePostern } from "../fixtures/postern.ts";
import { asUser, keys, useOwnRedis } from "../fixtures/redis.ts";
import { runHereWith } from "../services/cli/run-here.ts";
import { send } from "../support/http.ts";
import { entryOf, releaseNamed } from "../support/releases.ts";
import { tempDir } from "../support/temp-dir.ts";

const PAGE = "docs/upgrade.md";
const PATH = "/hooks/echo";
const NEXT = "9.8.7";

const all = (release: string) => ({
  webhooks: release,
  producer: release,
  runner: release,
  operator: release,
});
const [ALL_OLD, ALL_NEW] = [all(RELEASE), all(NEXT)];

const redis = useOwnRedis();
const ofRunner = useOwnRedis();
const postern = usePostern();
const here = runHereWith(postern);

type Kind = Extract<ProcessKind, "webhooks" | "producer" | "runner" | "operator">;
const addresses: Record<Kind, string> = { webhooks: "", producer: "", runner: "", operator: "" };
let running: Partial<Record<Kind, PosternProcess>>;
/** Keys of `[redis]`. */
let place: Record<string, string>;
let runnersPlace: { redis?: { url: string } };

beforeEach(async () => {
  running = {};
  place = {};
  runnersPlace = {};
  for (const kind of Object.keys(addresses) as Kind[]) addresses[kind] = `127.0.0.1:${await freePort()}`;
  await redis.client.flushdb();
});

const configure = (kind: Kind): void =>
  postern.configure({
    postern: {
      drain_secs: 0,
      redis: { url: asUser(redis.url, kind), ...place },
      runner: { url: `http://${addresses.runner}`, bind_address: addresses.runner, ...runnersPlace },
      results: { secret: "the secret of the tokens of results" },
    },
    webhooks: {
      endpoints: [
        {
          ...{ path: PATH, job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" },
          ...{ respond: "result", wait_secs: 20 },
        },
      ],
    },
    operator: { tokens: [...TWO_TOKENS] },
  });

/** Replaces the running process of this kind. Resolves once the new one is ready. */
async function replace(kind: Kind, entry?: readonly string[]): Promise<void> {
  await stop(kind);
  configure(kind);
  const bind = kind === "producer" || kind === "runner" ? [] : ["--bind-address", addresses[kind]];
  const ops = kind === "runner" ? [] : ["--ops-address", "127.0.0.1:0"];
  const started = postern.start([kind, ...bind, ...ops], entry === undefined ? {} : { entry });
  running[kind] = started;
  const { opsAddress, address } = await started.waitForEvent("service.started");
  const ready = { method: "GET", path: "/readyz" };
  await eventually(`${kind} is ready`, async () => {
    return (await send(String(opsAddress ?? address), ready)).status === 200;
  });
}

async function stop(kind: Kind): Promise<void> {
  const before = running[kind];
  if (before !== undefined) expect(await before.kill("SIGTERM")).toMatchObject({ code: 0 });
}

/** Sends a webhook, and checks that its sender gets the result. */
async function deliver(body: string): Promise<void> {
  const headers = { "X-Delivery-Id": body };
  const answer = await send(addresses.webhooks, { path: PATH, headers, body, timeoutMs: 30_000 });
  expect([answer.status, answer.text]).toEqual([200, body]);
}

/** Returns the release of each kind of process, as `postern status` lists them. */
async function releases(): Promise<Record<string, string>> {
  configure("operator");
  const [status] = jsonLines(await here(["status", "-o", "json"]));
  const processes = status?.["processes"] as { kind: string; version: string }[];
  return Object.fromEntries(processes.map(({ kind, version }) => [kind, version]));
}

/** Runs the page's command that contains this word, with the addresses of our Redis and the runner's. */
function follow(word: string): void {
  const [block] = blocksOf(PAGE).filter(({ text }) => text.includes(word));
  const command = String(block?.text)
    .replaceAll("redis-cli", `redis-cli -p ${redis.server.port}`)
    .replace("redis-2 6379", `127.0.0.1 ${ofRunner.server.port}`);
  expect(spawnSync("bash", ["-c", command], { encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
}

test("the steps of docs/upgrade.md for the same layout replace one process after another, and back again, and each call runs", {
  timeout: 180_000,
}, async () => {
  const next = entryOf(releaseNamed(NEXT));
  for (const kind of ["runner", "producer", "webhooks", "operator"] as const) await replace(kind);
  await deliver("of the first release");
  const check = spawnSync(process.execPath, [...next, "config", "check", "--config-dir", postern.configDir]);
  expect(check.status).toBe(0);

  await replace("producer", next);
  await deliver("of two releases");
  expect(await releases()).toEqual({ ...ALL_OLD, producer: NEXT });
  for (const kind of ["webhooks", "operator", "runner"] as const) {
    await replace(kind, next);
    await deliver(`after that of ${kind}`);
  }
  expect(await releases()).toEqual(ALL_NEW);
  await deliver("of the first release"); // the kept result is the answer

  for (const kind of ["webhooks", "producer"] as const) {
    await replace(kind);
    await deliver(`back at that of ${kind}`);
  }
  expect(await releases()).toEqual({ ...ALL_NEW, webhooks: RELEASE, producer: RELEASE });
});

test("the steps of docs/upgrade.md for a new layout empty Redis, adopt it, and keep the runner from running an earlier call again", {
  timeout: 180_000,
}, async () => {
  place = { state_file: join(tempDir(), "redis.json") };
  for (const kind of ["runner", "producer", "webhooks"] as const) await replace(kind);
  await deliver("before");
  for (const kind of ["webhooks", "producer", "runner"] as const) await stop(kind);
  await redis.client.set(keys.layout, JSON.stringify({ layout: LAYOUT - 1, release: "0.0.9" }));
  configure("producer");
  expect(await postern.run(["producer", "--ops-address", "127.0.0.1:0"])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("start.layout_mismatch"),
  });

  follow("UNLINK");
  const left = await redis.client.keys("*");
  expect(left.filter((key) => !key.startsWith("{postern-runner}:"))).toEqual([]);
  expect(left).not.toEqual([]);

  configure("webhooks");
  const refused = postern.start([
    "webhooks",
    "--bind-address",
    "127.0.0.1:0",
    "--ops-address",
    "127.0.0.1:0",
  ]);
  await refused.waitForEvent("redis.unusable");
  await refused.kill("SIGTERM");
  configure("operator");
  const words = /`postern (redis adopt --without-audit --reason) "([^`]*)"`/.exec(readDocument(PAGE)) ?? [];
  const adopt = [...String(words[1]).split(" "), String(words[2]), "--yes"];
  expect(await here(adopt)).toMatchObject({ code: 0 });
  for (const kind of ["runner", "producer", "webhooks"] as const) await replace(kind);
  await deliver("before");
  expect(await running.runner?.waitForEvent("job.finished")).toMatchObject({ replayed: true });
});

test("the steps of docs/upgrade.md for the runner's own Redis keep the runner from running an earlier call again", {
  timeout: 180_000,
}, async () => {
  for (const kind of ["runner", "producer", "webhooks"] as const) await replace(kind);
  await deliver("before");
  for (const kind of ["webhooks", "producer", "runner"] as const) await stop(kind);
  follow("MIGRATE");
  await redis.client.flushdb();

  runnersPlace = { redis: { url: ofRunner.url } };
  for (const kind of ["runner", "producer", "webhooks"] as const) await replace(kind);
  await deliver("before");
  expect(await running.runner?.waitForEvent("job.finished")).toMatchObject({ replayed: true });
});
