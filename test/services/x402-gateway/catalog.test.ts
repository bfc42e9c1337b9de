import { expect, test } from "vitest";
import { toCatalog } from "../../../services/x402-gateway/catalog.ts";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { toPriceList } from "../../../shared/pricing/prices.ts";
import { tokenTable, tokenWith } from "../../support/rate-tokens.ts";

const ids = { serviceId: 1, jobIndex: 7 };
const prices = toPriceList([{ ...ids, priceWei: 10n ** 15n }]);
const live = {
  source: "http_json",
  url: "https://rates.example.com",
  pointer: "",
};

function x402With(...rates: unknown[]) {
  const x402 = x402Toml({}).parse({
    public_url: "https://pay.example.com",
    facilitator_url: "https://facilitator.example.com",
    quote_secret: "a quote secret for these tests",
    accepted_tokens: [{ ...tokenTable("3200"), rpc_url: undefined }],
  });
  return { ...x402, accepted_tokens: rates.map((rate) => tokenWith(rate)) };
}

test("a job of the catalogue is the same object until a rate changes, and another one afterwards", () => {
  let now: string | undefined = "3200";
  const { find } = toCatalog(x402With(live), prices, () => now);
  const job = find(ids);
  expect(job?.prices.map(({ amount }) => amount)).toEqual([3_200_000n]);
  expect(find(ids)).toBe(job);
  now = "3300.0000001";
  const next = find(ids);
  expect(next).not.toBe(job);
  expect(next?.prices.map(({ amount }) => amount)).toEqual([3_300_001n]);
  expect(find(ids)).toBe(next);
  now = undefined;
  expect(find(ids)).toMatchObject({ prices: [] });
});

test("a catalogue with fixed rates only asks nobody for a rate again", () => {
  let asked = 0;
  const { find } = toCatalog(x402With("3200", "1"), prices, ({ rate_per_native_unit }) => {
    asked += 1;
    return String(rate_per_native_unit);
  });
  const before = find(ids);
  const askedOnce = asked;
  for (let i = 0; i < 1000; i++) expect(find(ids)).toBe(before);
  expect(asked).toBe(askedOnce);
  expect(before?.prices).toHaveLength(2);
});

test("a catalogue without anybody to ask for rates offers tokens of fixed rates and no others", () => {
  const { find } = toCatalog(x402With("3200", live), prices);
  expect(find(ids)?.prices.map(({ amount }) => amount)).toEqual([3_200_000n]);
});
