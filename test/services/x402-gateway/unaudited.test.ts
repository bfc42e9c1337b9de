import { expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { Deployment } from "../../../shared/redis/deployment.ts";
import { asUser, keys } from "../../fixtures/redis.ts";
import { PRICE, useX402, x402Table } from "../../fixtures/x402.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere } from "../cli/run-here.ts";

const fixture = useX402();

function command(...words: string[]) {
  const dir = tempDir();
  writeConfig(dir, {
    postern: { redis: { url: asUser(fixture.redis.url, "operator") } },
    x402: x402Table({ devnet: fixture.devnet }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  return runHere([...words, "--config-dir", dir]);
}

test("after an adoption no gateway sells until an audit covers the lost time, and earlier purchases are still answered", async () => {
  const x402 = await fixture.gateway({ deployment: new Deployment({}, silentLogger) });
  const unaware = await fixture.gateway();
  const bought = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(bought)).status).toBe(202);
  const signed = await x402.pay({ payer: fixture.payer });
  const fromBlock = await fixture.devnet.chain.client.getBlockNumber();
  const { timestamp } = await fixture.devnet.chain.client.getBlock({ blockNumber: fromBlock });
  const since = new Date(Number(timestamp) * 1000).toISOString();

  const adopted = await command("redis", "adopt", "--yes", "--reason", "a test", "--since", since);
  expect([adopted.code, adopted.stdout]).toEqual([
    0,
    expect.stringContaining(`block N must be older than ${since}`),
  ]);
  const sales = () => x402.gateway.readiness().checks["sales"];
  await eventually("sales are closed", () => String(sales()).startsWith("closed"));
  expect(sales()).toBe(`closed until an audit covers all blocks since ${since}`);
  expect(x402.gateway.readiness().ready).toBe(true);
  for (const answer of [await x402.post(), await x402.post(signed), await unaware.post(signed)])
    expect(answer.json()).toMatchObject({ status: 503, code: "payment.unavailable" });
  expect((await x402.post(bought)).status).toBe(202);
  expect(await fixture.charged()).toEqual([PRICE]);

  const later = await eventually("a block is of a later second", async () => {
    await fixture.devnet.chain.mine();
    const { number, timestamp: its } = await fixture.devnet.chain.client.getBlock();
    return its > timestamp ? String(number) : undefined;
  });
  const upTo = ["--from-block", String(fromBlock), "--to-block", String(fromBlock)];
  for (const range of [["--from-block", later], upTo]) {
    expect((await command("payments", "audit", ...range)).code).toBe(0);
    expect(await fixture.redis.client.hexists(keys.deployment, "unaudited")).toBe(1);
  }
  expect((await command("payments", "audit", "--from-block", String(fromBlock))).code).toBe(0);
  await eventually("sales are open", () => sales() === "open");
  expect((await unaware.post(signed)).status).toBe(202);
  const { payer } = fixture;
  expect((await x402.post(await x402.pay({ payer }))).status).toBe(202);
  expect(await fixture.redis.client.hkeys(keys.deployment)).toEqual(["id", "at", "adopted"]);
});
