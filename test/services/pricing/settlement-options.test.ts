import { expect, test } from "vitest";
import { type Engine, NOW_SECS, OPERATOR, usePricing, wireRequest } from "../../fixtures/pricing.ts";
import { post } from "./routes/quote/quote-request.ts";
import { settledAt, TOKENS } from "./x402-settlement.ts";

const pricing = usePricing();

test("settlement options have the quote's amount in each token, rounded up with the markup, and the URL for the payment", async () => {
  const jobs = [{ serviceId: 42, jobIndex: 3, priceWei: 10n ** 15n + 1n }];
  const engine = await pricing.engine({ jobs, settlement: settledAt("https://pay.example.com") });
  const { response = {} } = await engine.ask(wireRequest());
  const { network, asset, symbol, pay_to } = TOKENS[0]!;
  // 0.001 x 3200 x 1.02 = 3.264 tokens and a fraction of a unit.
  expect(response["settlement_options"]).toEqual([
    { network, asset, symbol, amount: "3264001", pay_to, scheme: "exact" },
  ]);
  expect(response["x402_endpoint"]).toBe("https://pay.example.com/x402/jobs/42/3");
});

test("settlement options are present only if the service was made with them", async () => {
  const settling = await pricing.engine({ settlement: settledAt("https://pay.example.com") });
  const without = await pricing.engine();
  const ask = async ({ service }: Engine) => {
    const { proof_of_work, requester, inputs_hash } = wireRequest();
    return service.getJobPrice({
      ...{ serviceId: 42n, jobIndex: 3, challengeTimestamp: BigInt(NOW_SECS), requireTee: false },
      ...{ proofOfWork: proof_of_work, requester, inputsHash: inputs_hash },
    });
  };
  expect((await ask(settling)).settlement).toBeDefined();
  expect((await ask(without)).settlement).toBeUndefined();
  expect((await ask(without)).operator).toBe(OPERATOR);
  const answer = (await post(without, wireRequest())).json();
  expect(answer).not.toHaveProperty("settlement_options");
  expect(answer).not.toHaveProperty("x402_endpoint");
});

test("settlement options follow the current rates, also for a repeated quote, and skip a token with an unknown rate", async () => {
  let rate: string | undefined = "3200";
  const moving = await pricing.engine({
    settlement: settledAt("https://pay.example.com"),
    rateOf: () => rate,
  });
  const request = wireRequest();
  const first = (await post(moving, request)).json<Record<string, unknown>>();
  expect(first["settlement_options"]).toMatchObject([{ amount: "3264000000" }]);
  rate = "1600";
  const second = (await post(moving, request)).json<Record<string, unknown>>();
  expect(second["settlement_options"]).toMatchObject([{ amount: "1632000000" }]);
  expect(second["quote_header"]).toBe(first["quote_header"]);
  rate = undefined;
  const third = (await post(moving, request)).json<Record<string, unknown>>();
  expect(third["settlement_options"]).toEqual([]);
});
