import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, describe, expect, test } from "vitest";
import { toHex } from "../../../shared/chain/encoding.ts";
import { recoverAddress } from "../../../shared/chain/signatures.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { type PosternProcess, startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { jobQuoteDigest } from "../../../shared/pricing/job-quote.ts";
import { DOMAIN, ENGINE, KEY, OPERATOR, SEPARATOR, toQuote, wireRequest } from "../../fixtures/pricing.ts";
import { asUser, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { reflectedClient } from "../../support/reflected.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere } from "../cli/run-here.ts";

const env = { ...process.env, POSTERN_PRICING_KEY: KEY };

const redis = useRedis();
const mortal = useOwnRedis();

// These tests run at once, because they mostly wait. So the processes of a test end with the file.
const started: PosternProcess[] = [];
afterAll(() => Promise.all(started.map((engine) => engine.kill("SIGKILL"))));

function configDir(redisUrl: string, prices: Record<string, string> = { "3": "1000" }): string {
  const dir = tempDir();
  writeConfig(dir, {
    postern: { drain_secs: 0, redis: { url: asUser(redisUrl, "pricing") } },
    pricing: {
      ...{ key: "env:POSTERN_PRICING_KEY", http_address: "127.0.0.1:0", pow_difficulty: 8 },
      domain: { chain_id: DOMAIN.chainId, verifying_contract: DOMAIN.verifyingContract },
    },
    job_pricing: { "42": prices },
  });
  return dir;
}

function startPricing(dir: string, more: { args?: string[]; env?: NodeJS.ProcessEnv } = {}): PosternProcess {
  const addresses = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const args = ["pricing", "--config-dir", dir, ...addresses, ...(more.args ?? [])];
  const engine = startProcess({ name: "pricing", args, env: { ...env, ...more.env } });
  started.push(engine);
  return engine;
}

/** Makes the loader of native modules search for a binary that no package has. */
const WITHOUT_NATIVE = { npm_config_arch: "none" };

async function start(redisUrl = redis.url, env: NodeJS.ProcessEnv = {}) {
  const engine = startPricing(configDir(redisUrl), { env });
  const { address, opsAddress, operator } = await engine.waitForEvent("service.started");
  await engine.waitForEvent("redis.ready");
  return { engine, address: String(address), ops: String(opsAddress), operator };
}

describe.concurrent("each in a process of its own", () => {
  onlyInLongRun(() => {
    test("`postern pricing` quotes, counts its quotes, and exits with 0 on SIGTERM even if a client still watches its health", async () => {
      const { engine, address, ops, operator } = await start();
      expect(operator).toBe(OPERATOR);
      const client = reflectedClient(address);
      const request = wireRequest({ challenge_timestamp: String(Math.floor(Date.now() / 1000)) });
      expect(await client.call(ENGINE, "GetJobPrice", request)).toMatchObject({ code: status.OK });
      expect(await client.call(ENGINE, "GetJobPrice", { ...request, job_index: 4 })).toMatchObject({
        code: status.NOT_FOUND,
      });
      const get = async (path: string) => (await send(ops, { method: "GET", path })).text;
      expect(await get("/livez")).toBe("ok");
      expect(JSON.parse(await get("/readyz"))).toMatchObject({
        ...{ status: "ready", redis: "always", draining: false },
      });
      const metrics = await get("/metrics");
      expect(metrics).toContain('postern_pricing_quotes_total{code="issued"} 1');
      expect(metrics).toContain('postern_pricing_quotes_total{code="job.not_found"} 1');

      const watch = await client.methodOf("grpc.health.v1.Health", "Watch");
      const statuses: string[] = [];
      const stream = client.client.makeServerStreamRequest(
        watch.path,
        watch.requestSerialize,
        watch.responseDeserialize,
        { service: ENGINE },
      );
      stream.on("data", (message) => statuses.push(message.status));
      stream.on("error", () => {});
      await eventually("it is told", () => statuses.includes("SERVING"));
      const startedAt = performance.now();
      expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
      expect(performance.now() - startedAt).toBeLessThan(9000);
      expect(statuses.at(-1)).toBe("NOT_SERVING");
      client.close();
    });

    test("without the native module of secp256k1, `postern pricing` logs this once at its start and signs the same quotes", async () => {
      const withModule = await start();
      expect(withModule.engine.events("signatures.slow")).toEqual([]);
      const { engine, address, operator } = await start(redis.url, WITHOUT_NATIVE);
      expect(engine.events("signatures.slow")).toMatchObject([
        { remedy: expect.stringContaining("npm rebuild secp256k1") },
      ]);
      expect(operator).toBe(OPERATOR);
      const request = wireRequest({ challenge_timestamp: String(Math.floor(Date.now() / 1000)) });
      const client = reflectedClient(address);
      const { response = {} } = await client.call(ENGINE, "GetJobPrice", request);
      client.close();
      const digest = jobQuoteDigest(SEPARATOR, toQuote(response));
      expect(recoverAddress(digest, toHex(response["signature"] as Buffer))).toBe(OPERATOR);
    });
  });

  test("`postern pricing` exits with 0 on SIGTERM even if Redis is unavailable", async () => {
    const { engine, ops } = await start(mortal.url);
    await mortal.server.kill("SIGKILL");
    await engine.waitForEvent("redis.unreachable");
    const ready = await send(ops, { method: "GET", path: "/readyz" });
    expect(ready.status).toBe(503);
    expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
  });

  onlyInLongRun(() => {
    type Change = { pricing?: boolean; prices?: Record<string, string> };
    const REFUSED: [string, Change, NodeJS.ProcessEnv, RegExp][] = [
      ["without its file", { pricing: false }, {}, /pricing\.toml: file not found/],
      ["without its key", {}, { POSTERN_PRICING_KEY: undefined }, /POSTERN_PRICING_KEY, which is not set/],
      [
        "with a price of 99 wei",
        { prices: { "3": "99" } },
        {},
        /job_pricing\.toml:\d+: 42\.3: must be at least 100 wei/,
      ],
    ];
    test.each(REFUSED)(
      "`postern pricing` %s does not start, and exits with 3",
      async (_, { pricing: there = true, prices }, change, reason) => {
        const dir = there ? configDir(redis.url, prices) : mkdtempSync(join(tempDir(), "empty-"));
        const engine = startPricing(dir, { env: change });
        const failed = await engine.waitForEvent("service.failed");
        expect(failed["reason"]).toMatch(reason);
        expect(await engine.exit).toMatchObject({ code: 3 });
      },
    );

    test("`postern pricing` exits with 1 if its address is in use, and gRPC prints no message of its own", async () => {
      const taken = createServer().listen(0, "127.0.0.1");
      await once(taken, "listening");
      const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
      const engine = startPricing(configDir(redis.url), { args: ["--bind-address", address] });
      expect(await engine.waitForEvent("service.failed")).toMatchObject({
        code: "start.address_unavailable",
      });
      expect(await engine.exit).toMatchObject({ code: 1 });
      const lines = engine.tail().split("\n");
      expect(lines.filter((line) => !line.startsWith("{"))).toEqual([]);
      taken.close();
    });

    test("`postern config check` says what is quoted, and refuses what `postern pricing` refuses", async () => {
      const checkConfig = (dir: string) => runHere(["config", "check", "--config-dir", dir], env);
      const good = await checkConfig(configDir(redis.url));
      expect([good.code, good.stdout]).toEqual([0, expect.stringContaining("pricing engine: 1 priced job")]);
      const bad = await checkConfig(configDir(redis.url, { "3": "5", x: "1" }));
      expect(bad.code).toBe(3);
      expect(bad.stderr.match(/job_pricing\.toml:\d+: 42\.3: must be at least 100 wei/g)).toHaveLength(1);
      expect(bad.stderr.match(/job_pricing\.toml:\d+: 42\.x: must be a job index/g)).toHaveLength(1);
    });
  });
});
