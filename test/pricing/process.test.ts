import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { startProcess } from "../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { keccak256Hex } from "../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../shared/ethereum/signatures.ts";
import { decodeQuoteHeader, jobQuoteDigest } from "../../shared/pricing/job-quote.ts";
import { send } from "../support/http.ts";
import { reflectedClient } from "../support/reflected.ts";
import { tempDir } from "../support/temp-dir.ts";
import { DOMAIN, ENGINE, KEY, OPERATOR, SEPARATOR, wireRequest } from "./pricing-fixture.ts";

const program = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const env = { ...process.env, POSTERN_PRICING_KEY: KEY };

let redis: PrivateRedis;
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
});
afterAll(() => redis.stop());

function configDir(redisUrl: string, prices: Record<string, string> = { "3": "1000" }): string {
  const dir = tempDir();
  writeConfig(dir, {
    postern: { drain_secs: 0, redis: { url: redisUrl } },
    pricing: {
      ...{ key: "env:POSTERN_PRICING_KEY", http_address: "127.0.0.1:0", pow_difficulty: 8 },
      domain: { chain_id: DOMAIN.chainId, verifying_contract: DOMAIN.verifyingContract },
    },
    job_pricing: { "42": prices },
  });
  return dir;
}

const pricing = (dir: string) => [
  ...["pricing", "--config-dir", dir],
  ...["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"],
];

async function start(redisUrl = redis.url) {
  const engine = startProcess({ name: "pricing", args: pricing(configDir(redisUrl)), env });
  const { address, httpAddress, opsAddress, operator } = await engine.waitForEvent("service.started");
  await engine.waitForEvent("redis.ready");
  return { engine, address: String(address), http: String(httpAddress), ops: String(opsAddress), operator };
}

/** Runs the program to its end. */
function postern(args: readonly string[]) {
  const child = spawn(process.execPath, [program, ...args], { env });
  const out = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    out.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    out.stderr += chunk;
  });
  return new Promise<{ status: number | null; stdout: string; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ status: code, ...out })),
  );
}

const nowSecs = () => String(Math.floor(Date.now() / 1000));

describe("postern pricing", () => {
  test("quotes over gRPC, counts it, and ends with 0 on SIGTERM while a client still watches its health", async () => {
    const { engine, address, ops, operator } = await start();
    expect(operator).toBe(OPERATOR);
    const client = reflectedClient(address);
    const request = wireRequest({ challenge_timestamp: nowSecs() });
    expect(await client.call(ENGINE, "GetJobPrice", request)).toMatchObject({ code: status.OK });
    expect(await client.call(ENGINE, "GetJobPrice", { ...request, job_index: 4 })).toMatchObject({
      code: status.NOT_FOUND,
    });
    const get = async (path: string) => (await send(ops, { method: "GET", path })).text;
    expect(await get("/livez")).toBe("ok");
    expect(JSON.parse(await get("/readyz"))).toMatchObject({ status: "ready", draining: false });
    const metrics = await get("/metrics");
    expect(metrics).toContain('postern_pricing_quotes_total{code="issued"} 1');
    expect(metrics).toContain('postern_pricing_quotes_total{code="job.not_found"} 1');

    const watch = await client.methodOf("grpc.health.v1.Health", "Watch");
    const told: string[] = [];
    const stream = client.client.makeServerStreamRequest(
      watch.path,
      watch.requestSerialize,
      watch.responseDeserialize,
      { service: ENGINE },
    );
    stream.on("data", (message) => told.push(message.status));
    stream.on("error", () => {});
    await eventually("it is told", () => told.includes("SERVING"));
    const startedAt = performance.now();
    expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
    expect(performance.now() - startedAt).toBeLessThan(9000);
    expect(told.at(-1)).toBe("NOT_SERVING");
    client.close();
  });

  test("stops with 0 on SIGTERM though Redis is away", async () => {
    const mortal = await startRedis({ env: process.env });
    const { engine, ops } = await start(mortal.url);
    await mortal.kill("SIGKILL");
    await engine.waitForEvent("redis.lost");
    const ready = await send(ops, { method: "GET", path: "/readyz" });
    expect(ready.status).toBe(503);
    expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
    await mortal.stop();
  });

  type Change = { pricing?: boolean; prices?: Record<string, string> };
  test.each<[string, Change, NodeJS.ProcessEnv, RegExp]>([
    ["without its file", { pricing: false }, {}, /pricing\.toml: there is no such file/],
    ["without its key", {}, { POSTERN_PRICING_KEY: undefined }, /POSTERN_PRICING_KEY, which is not set/],
    ["with a price of 99 wei", { prices: { "3": "99" } }, {}, /job_pricing\.toml: 42\.3: is below 100 wei/],
  ])(
    "%s it does not start, and exits with 3",
    async (_, { pricing: there = true, prices }, change, reason) => {
      const dir = there ? configDir(redis.url, prices) : mkdtempSync(join(tempDir(), "empty-"));
      const engine = startProcess({ name: "pricing", args: pricing(dir), env: { ...env, ...change } });
      const failed = await engine.waitForEvent("service.failed");
      expect(failed["reason"]).toMatch(reason);
      expect(await engine.exit).toMatchObject({ code: 3 });
    },
  );

  test("an address that is taken ends the start with 1", async () => {
    const { engine, address } = await start();
    const args = [...pricing(configDir(redis.url)), "--bind-address", address];
    const second = startProcess({ name: "pricing", args, env });
    expect(await second.waitForEvent("service.failed")).toMatchObject({ code: "start.address_unavailable" });
    expect(await second.exit).toMatchObject({ code: 1 });
    // gRPC says nothing of its own beside it.
    expect(
      second
        .tail()
        .split("\n")
        .filter((line) => !line.startsWith("{")),
    ).toEqual([]);
    expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
  });
});

describe("postern check-config", () => {
  test("says what is quoted, and refuses what `postern pricing` refuses", async () => {
    const good = await postern(["check-config", "--config-dir", configDir(redis.url)]);
    expect([good.status, good.stdout]).toEqual([0, expect.stringContaining("pricing engine: 1 priced job")]);
    const bad = await postern(["check-config", "--config-dir", configDir(redis.url, { "3": "5", x: "1" })]);
    expect(bad.status).toBe(3);
    expect(bad.stderr.match(/job_pricing\.toml: 42\.3: is below 100 wei/g)).toHaveLength(1);
    expect(bad.stderr.match(/job_pricing\.toml: 42\.x: is not a job index/g)).toHaveLength(1);
  });
});

describe("postern quote", () => {
  const requester = "0x000000000000000000000000000000000000bEEF";

  test("does the work and shows the quote, with the header that an x402 gateway takes", async () => {
    const { engine, http } = await start();
    const args = ["quote", `http://${http}`, "42", "3", "--requester", requester, "--difficulty", "8"];
    const shown = await postern([...args, "--body", "hi"]);
    expect([shown.status, shown.stderr]).toEqual([0, ""]);
    expect(shown.stdout).toContain("price: 1000 wei, until ");
    const header = /^X-PLATFORM-QUOTE: (\S+)$/m.exec(shown.stdout)?.[1] ?? "";
    const decoded = decodeQuoteHeader(header);
    if (!decoded.ok) throw new Error(decoded.problem);
    const { quote, signature } = decoded.signed;
    expect(quote).toMatchObject({
      serviceId: 42n,
      jobIndex: 3,
      priceWei: 1000n,
      requester: requester.toLowerCase(),
    });
    expect(quote.inputsHash).toBe(keccak256Hex(Buffer.from("hi")));
    expect(recoverAddress(jobQuoteDigest(SEPARATOR, quote), signature)).toBe(OPERATOR);

    const file = join(tempDir(), "body");
    writeFileSync(file, Buffer.of(0, 255));
    const json = await postern([...args, "--body-file", file, "--json"]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      quote_details: { inputs_hash: keccak256Hex(Buffer.of(0, 255)) },
      operator_id: OPERATOR,
    });
    // Two at once, in the same second, for different inputs: each has a proof of its own.
    const both = await Promise.all(["a", "b"].map((body) => postern([...args, "--body", body])));
    expect(both.map((each) => each.status)).toEqual([0, 0]);

    const unsold = await postern([...args.slice(0, 3), "4", ...args.slice(4)]);
    expect([unsold.status, unsold.stderr]).toEqual([
      1,
      expect.stringContaining("No pricing configured for service 42 job index 4"),
    ]);
    expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
  });

  test.each([
    [["http://127.0.0.1:1", "42", "3", "--requester", requester, "--difficulty", "0"], 1],
    [["http://127.0.0.1:1", "42", "3"], 2],
    [["http://127.0.0.1:1", "42", "3", "--requester", "0x12"], 2],
    [["ftp://127.0.0.1", "42", "3", "--requester", requester], 2],
    [["http://127.0.0.1:1", "42", "x", "--requester", requester], 2],
    [["http://127.0.0.1:1", "42", "3", "--requester", requester, "--difficulty", "25"], 2],
    [["http://127.0.0.1:1", "42", "3", "--requester", requester, "--body", "a", "--body-file", "b"], 2],
  ])("%j exits with %d", async (args, code) => {
    expect(await postern(["quote", ...args])).toMatchObject({ status: code, stdout: "" });
  });
});
