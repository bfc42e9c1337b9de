import { chmodSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import type { Child } from "../../shared/child-process/spawn-child.ts";
import { startProcess } from "../../shared/child-process/start-process.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { startRedis } from "../../shared/private-redis/start-redis.ts";
import { keys } from "../../shared/queue/agreements.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { eventually } from "../support/eventually.ts";
import { canConnect } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";

const PROGRAM = fileURLToPath(new URL("../../dist/services/demo/main.js", import.meta.url));
const PATIENCE_MS = 90_000;

const running: Child[] = [];
afterEach(async () => {
  for (const demo of running.splice(0)) await demo.kill("SIGTERM");
});

function startDemo(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const lines: string[] = [];
  const { REDIS_URL: _, ...inherited } = process.env;
  const demo = startProcess({
    name: "demo",
    entry: [PROGRAM],
    args,
    env: { ...inherited, ...env },
    onLine: (line) => lines.push(line),
  });
  running.push(demo);
  return { demo, text: () => lines.join("\n") };
}

/** Every port of this machine that the demo named. */
function portsIn(text: string): number[] {
  return [...new Set([...text.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port)))];
}

async function listening(ports: readonly number[]): Promise<number[]> {
  const open = await Promise.all(ports.map(canConnect));
  return ports.filter((_, i) => open[i]);
}

const SUM = /(\d+) accepted = (\d+) injected \+ 0 parked \+ 0 waiting/;

test(
  "with --exit, everything the demo shows is so, its counts add up, and nothing of it is left",
  async () => {
    const { demo, text } = startDemo(["--exit"]);
    const exit = await demo.exit;
    expect(text()).toMatch(new RegExp(` {2}ok {2}It adds up: ${SUM.source}`));
    const [, accepted, injected] = SUM.exec(text()) ?? [];
    expect([Number(accepted), exit]).toEqual([Number(injected), { code: 0, signal: null }]);
    expect(text()).not.toMatch(/^ {2}NO /m);
    expect(portsIn(text()).length).toBeGreaterThan(4);
    expect(await listening(portsIn(text()))).toEqual([]);
  },
  PATIENCE_MS,
);

test(
  "a statement that is not so is named, the counts are shown all the same, and the exit code is 1",
  async () => {
    const path = tempDir();
    writeFileSync(join(path, "curl"), "#!/bin/sh\n");
    chmodSync(join(path, "curl"), 0o755);
    const { demo, text } = startDemo(["--exit"], { PATH: `${path}${delimiter}${process.env["PATH"]}` });
    expect(await demo.exit).toEqual({ code: 1, signal: null });
    expect(text()).toMatch(/^ {2}NO .*expected 202, found 0$/m);
    expect(text()).toMatch(SUM);
  },
  PATIENCE_MS,
);

test(
  "a signal in the middle ends all of the demo within seconds, with exit code 1",
  async () => {
    const { demo, text } = startDemo([]);
    await eventually("the runner is away", () => text().includes("8 times 202"), PATIENCE_MS);
    const ports = portsIn(text());
    expect((await listening(ports)).length).toBeGreaterThan(2);
    expect(await demo.kill("SIGTERM")).toEqual({ code: 1, signal: null });
    expect(await listening(ports)).toEqual([]);
  },
  PATIENCE_MS,
);

test("a Redis that another producer works on is refused, and left as it is", async () => {
  const server = await startRedis({ env: process.env });
  const redis = connectForWork(new Secret(server.url), silentLogger);
  try {
    await redis.zadd(keys.workers, Date.now() + PATIENCE_MS, "another producer");
    const { demo, text } = startDemo(["--exit"], { REDIS_URL: server.url });
    expect(await demo.exit).toEqual({ code: 1, signal: null });
    expect(text()).toContain("The Redis of REDIS_URL is in use");
    expect(await redis.keys("*")).toEqual([keys.workers]);
  } finally {
    redis.disconnect();
    await server.stop();
  }
});
