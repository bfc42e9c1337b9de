import { expect, test } from "vitest";
import { JOB_PATH, PUBLIC_URL, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { BY_PAYER, restrictedJobs } from "../../restricted-jobs.ts";
import { ASSET_18, twoTokens } from "../../two-tokens.ts";

const fixture = useX402();

test("a job's price is told in wei and in each token, with an endpoint at the public URL", async () => {
  const x402 = await fixture.gateway({ x402: twoTokens(fixture.devnet), early: true });
  const headers = { Host: "evil.test", "X-Forwarded-Host": "evil.test" };
  const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price`, headers });
  const { network, token, seller } = fixture.devnet;
  const common = {
    protocol: "x402",
    pay_to: seller,
    scheme: "exact",
    x402_endpoint: `${PUBLIC_URL}${JOB_PATH}`,
  };
  expect(answer.status).toBe(200);
  expect(answer.json()).toEqual({
    service_id: 1,
    job_index: 7,
    price_wei: "1000000000000000",
    settlement_options: [
      { ...common, network, asset: token, symbol: "USDC", amount: "3200000" },
      { ...common, network: "eip155:31337", asset: ASSET_18, symbol: "DAY", amount: "3200000000000000000" },
    ],
    policy: "public_paid",
  });
});

test("the price of a job for permitted callers says so in its policy", async () => {
  const { prices, x402: settings } = restrictedJobs(fixture.devnet);
  const x402 = await fixture.gateway({ prices, x402: settings });
  const answer = await send(x402.address, { method: "GET", path: `${BY_PAYER}/price` });
  expect(answer.json()["policy"]).toBe("restricted_paid");
});
