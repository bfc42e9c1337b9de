import { expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { builtEntry, startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { DOMAIN, ENGINE, KEY, wireRequest } from "../../fixtures/pricing.ts";
import { SALE_UNSERVED, useRateSources } from "../../fixtures/rate-sources.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { reflectedClient } from "../../support/reflected.ts";
import { tempDir } from "../../support/temp-dir.ts";

const fixture = useRateSources();
const redis = useRedis();
const ends = useEnds();

/** Configures a price of a thousandth of a native unit, and a token with the feed's rate. */
async function configure(): Promise<string> {
  const feed = await fixture.feed();
  await fixture.write(feed);
  const rate = { source: "chainlink", rpc_url: fixture.proxy.url, feed, max_age_secs: 86_400 };
  const dir = tempDir();
  writeConfig(dir, {
    postern: { drain_secs: 0, redis: { url: asUser(redis.url, "pricing") } },
    pricing: {
      ...{
        key: "env:POSTERN_PRICING_KEY",
        bind_address: "127.0.0.1:0",
        http_address: false,
        pow_difficulty: 8,
      },
      domain: { chain_id: DOMAIN.chainId, verifying_contract: DOMAIN.verifyingContract },
    },
    x402: x402Table({ devnet: SALE_UNSERVED, token: { rate_per_native_unit: rate } }),
    job_pricing: { "42": { "3": "1000000000000000" } },
  });
  return dir;
}

test("the pricing engine's settlement options follow a rate source, and the engine ends on SIGTERM", async () => {
  const entry = builtEntry("services/pricing/main-with-x402.js");
  const [args, env] = [[await configure()], { ...process.env, POSTERN_PRICING_KEY: KEY }];
  const engine = startProcess({ name: "pricing", entry, args, env });
  ends.defer(() => engine.kill("SIGKILL"));
  const { address } = await engine.waitForEvent("service.started");
  const client = reflectedClient(String(address));
  ends.defer(client.close);
  await eventually("it is offered", async () => {
    const request = wireRequest({ challenge_timestamp: String(Math.floor(Date.now() / 1000)) });
    const { response = {} } = await client.call(ENGINE, "GetJobPrice", request);
    const [option] = response["settlement_options"] as { amount: string }[];
    return option?.amount === "3200000";
  });
  expect(await engine.kill("SIGTERM")).toMatchObject({ code: 0 });
});
