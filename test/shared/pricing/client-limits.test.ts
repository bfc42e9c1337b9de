import { DEFAULT_ASSETS } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { devToken } from "../../../shared/dev/config.ts";
import { clientWarnings, KNOWN_TOKENS } from "../../../shared/pricing/client-limits.ts";
import { toPriceList } from "../../support/price-list.ts";

const [SELLER, OTHER] = [`0x${"1".repeat(40)}`, `0x${"2".repeat(40)}`] as const;
const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const DOLLAR_WEI = 10n ** 18n / 3200n;
const network = "eip155:84532" as const;
const live = { source: "http_json", url: "https://rates.example.com", pointer: "" };

function warnings(token: object, prices: bigint[], x402: object = {}): string[] {
  const file = x402Toml({ env: {} }).parse({
    public_url: "https://pay.example.com",
    facilitator_url: "https://facilitator.example.com",
    quote_secret: "a quote secret for these tests",
    accepted_tokens: [
      { ...devToken({ network, token: USDC, seller: SELLER, rpcUrl: "https://node.example.com" }), ...token },
    ],
    ...x402,
  });
  const jobs = prices.map((priceWei, jobIndex) => ({ serviceId: 1, jobIndex, priceWei }));
  return clientWarnings(file, toPriceList(jobs));
}

test("a token that @x402/fetch knows has no warning if its jobs cost at most a dollar", () => {
  expect(warnings({}, [DOLLAR_WEI, 1n])).toEqual([]);
  expect(warnings({ asset: USDC.toLowerCase() }, [1n])).toEqual([]);
});

test.each<[string, object, object?]>([
  ["of a fixed rate", {}],
  ["of the highest rate that is taken", { rate_per_native_unit: live, max_rate: "3200" }],
  [
    "among jobs that are sold",
    {},
    { job_policies: [{ service_id: 1, job_index: 3, invocation_mode: "disabled" }] },
  ],
])("a token %s has one warning with the number of its jobs above a dollar", (_name, token, x402) => {
  const found = warnings(
    token,
    [1n, DOLLAR_WEI * 2n, DOLLAR_WEI * 3n, ...(x402 ? [DOLLAR_WEI * 4n] : [])],
    x402,
  );
  expect(found).toEqual([
    expect.stringMatching(
      /^accepted_tokens\[0\]: USDC on eip155:84532: 2 of 3 jobs (may )?cost more than a dollar.*spendControls/,
    ),
  ]);
});

test.each<[string, object]>([
  ["of another address", { asset: OTHER }],
  ["of another network", { network: "eip155:10" }],
])("a token %s, which @x402/fetch does not know, has one warning that names it", (_name, token) => {
  const { asset } = { asset: USDC, ...token };
  expect(warnings(token, [1n, DOLLAR_WEI * 2n])).toEqual([
    expect.stringMatching(`spendControls.allowedAssets`),
  ]);
  expect(warnings(token, [1n])[0]).toContain(asset);
});

test("there is no warning if no job is sold, or if the rate is unknown", () => {
  expect(warnings({ asset: OTHER }, [])).toEqual([]);
  expect(warnings({ rate_per_native_unit: live }, [DOLLAR_WEI * 2n])).toEqual([]);
});

test.each<[string, { asset?: string; amount?: string }, boolean]>([
  ["a dollar in a token that it knows", {}, true],
  ["a unit more than a dollar", { amount: "1000001" }, false],
  ["a token that it does not know", { asset: OTHER }, false],
])(
  "the official client with default settings is asked for %s, and pays only what has no warning",
  async (_name, change, pays) => {
    const key = `0x${"1".repeat(64)}` as const;
    const client = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(key)));
    const offer = {
      ...{ scheme: "exact", asset: USDC, amount: "1000000", payTo: SELLER, maxTimeoutSeconds: 120 },
      network,
      extra: { name: "USDC", version: "2" },
      ...change,
    };
    const resource = { url: "https://pay.example.com/x402/jobs/1/1" };
    const signed = client.createPaymentPayload({ x402Version: 2, resource, accepts: [offer] });
    const outcome = await signed.then(
      () => true,
      () => false,
    );
    const wei = offer.amount === "1000000" ? DOLLAR_WEI : DOLLAR_WEI + 10n ** 12n;
    expect([outcome, warnings({ asset: offer.asset }, [wei]).length === 0]).toEqual([pays, pays]);
  },
);

test("the list of tokens that @x402/fetch knows equals its own table, with decimals", () => {
  const table = Object.entries(DEFAULT_ASSETS).flatMap(([network, assets]) =>
    assets.map(({ asset, decimals }) => [`${network}/${asset.toLowerCase()}`, decimals]),
  );
  expect(KNOWN_TOKENS).toEqual(Object.fromEntries(table));
});
