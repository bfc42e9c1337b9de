import { chmodSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { Secret } from "../../../shared/crypto/secret.ts";
import type { Child } from "../../../shared/dev/child.ts";
import { startProcess } from "../../../shared/dev/process.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { keys } from "../../../shared/redis/keys.ts";
import { canConnect } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { withoutAnvil } from "../../support/without-anvil.ts";

const PROGRAM = fileURLToPath(new URL("../../../dist/services/demo/main.js", import.meta.url));
const PATIENCE_MS = 90_000;

const running: Child[] = [];
afterEach(async () => {
  for (const demo of running.splice(0)) await demo.kill("SIGTERM");
});

type Started = { program?: string; env?: NodeJS.ProcessEnv };

function startDemo(args: readonly string[], { program = PROGRAM, env = {} }: Started = {}) {
  const lines: string[] = [];
  const { REDIS_URL: _, ...inherited } = process.env;
  const demo = startProcess({
    name: "demo",
    entry: [program],
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

const SUM = /(\d+) accepted = (\d+) injected \+ 0 failed \+ 0 waiting/;
const PAID_SUM =
  / {2}ok {2}It adds up: (\d+) payments settled = \1 charges = \1 paid jobs run; (\d+\.\d{6}) USDC paid = \2 USDC received$/m;

/** What is shown of payments, and found to be so. */
const PAID_SHOWN = [
  /GET \S+\/price: 20000000000000 wei, at 3200 USDC for 10\^18 wei 0\.064000 USDC$/,
  /PAYMENT-RESPONSE names the transaction that the chain has: 0x[0-9a-f]{64}$/,
  /X-PAYMENT-RESPONSE names the transaction that the chain has: 0x[0-9a-f]{64}$/,
  /all 5 answers are equal, byte for byte$/,
  /the client is answered 503 payment\.outcome_unknown, not 402/,
  /the same payment, sent again, is answered 202$/,
  /the gateway is killed by SIGKILL, and the client has no answer$/,
  /the payer is charged; queue and runner know nothing of it$/,
  /a good payment of another's is answered 403 caller\.not_permitted$/,
  /the payer has every token still, and the runner no such call$/,
  /after a proof of work of 14 bits it quotes 10000000000000 wei, signed by its operator 0x[0-9a-f]{40}$/,
  /the quote can be settled off chain: 0\.032000 USDC on eip155:84532, at \/x402\/jobs\/7\/1$/,
  /paid with X-PLATFORM-QUOTE it is answered 202, and the job carries the quote's digest 0x[0-9a-f]{64}$/,
  /another payment by the same quote is answered 409 quote\.used, and not charged$/,
];

test(
  "with --exit, everything the demo shows is so, its counts add up, and nothing of it is left",
  async () => {
    const { demo, text } = startDemo(["--exit"]);
    const exit = await demo.exit;
    expect(text()).toMatch(new RegExp(` {2}ok {2}It adds up: ${SUM.source}`));
    const [, accepted, injected] = SUM.exec(text()) ?? [];
    expect([Number(accepted), exit]).toEqual([Number(injected), { code: 0, signal: null }]);
    expect(text()).not.toMatch(/^ {2}NO /m);
    for (const shown of PAID_SHOWN) expect(text()).toMatch(new RegExp(`^ {2}ok {2}${shown.source}`, "m"));
    expect(PAID_SUM.exec(text())?.slice(1)).toEqual(["6", "0.224000"]);
    expect(text()).toMatch(/^ {6}seller +0\.000000 +0\.224000 +0\.224000$/m);
    expect(text()).toMatch(/^ {6}denied +1000000\.000000 +1000000\.000000 +0\.000000$/m);
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
    const { demo, text } = startDemo(["--exit"], {
      env: { PATH: `${path}${delimiter}${process.env["PATH"]}` },
    });
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
    const { demo, text } = startDemo(["--exit"], { env: { REDIS_URL: server.url } });
    expect(await demo.exit).toEqual({ code: 1, signal: null });
    expect(text()).toContain("The Redis of REDIS_URL is in use");
    expect(await redis.keys("*")).toEqual([keys.workers]);
  } finally {
    redis.disconnect();
    await server.stop();
  }
});

test(
  "without anvil the demo says so, shows the rest and exits with 0",
  async () => {
    const { dist, env } = withoutAnvil();
    const program = join(dist, "services/demo/main.js");
    const { demo, text } = startDemo(["--exit"], { program, env: { ...env, CI: "" } });
    expect([await demo.exit, text()]).toEqual([
      { code: 0, signal: null },
      expect.stringMatching(/payments are left out\n.*needs anvil/),
    ]);
    expect(text()).toMatch(SUM);
    expect(text()).not.toContain("USDC");
  },
  PATIENCE_MS,
);

test(
  "without anvil and with CI set, the demo fails",
  async () => {
    const { dist, env } = withoutAnvil();
    const program = join(dist, "services/demo/main.js");
    const { demo, text } = startDemo(["--exit"], { program, env: { ...env, CI: "true" } });
    await eventually("payments are missed", () => /^ {2}NO {2}payments are left out/m.test(text()));
    expect(await demo.kill("SIGTERM")).toEqual({ code: 1, signal: null });
  },
  PATIENCE_MS,
);
