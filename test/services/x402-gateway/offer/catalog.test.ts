import { expect, test } from "vitest";
import {
  noOfferError,
  toCatalog as toWholeCatalog,
} from "../../../../services/x402-gateway/offer/catalog.ts";
import { createListJobs } from "../../../../services/x402-gateway/routes/list-jobs.ts";
import { x402Toml } from "../../../../shared/config/x402-toml.ts";
import { fixedRateOf } from "../../../../shared/pricing/rates/sources/fixed.ts";
import { toPriceList } from "../../../support/price-list.ts";
import { tokenTable, tokenWith } from "../../../support/rate-tokens.ts";

const ids = { serviceId: 1, jobIndex: 7 };
const prices = toPriceList([{ ...ids, priceWei: 10n ** 15n }]);
const live = {
  source: "http_json",
  url: "https://rates.example.com",
  pointer: "",
};

function x402With(...rates: unknown[]) {
  const x402 = x402Toml({ env: {} }).parse({
    public_url: "https://pay.example.com",
    facilitator_url: "https://facilitator.example.com",
    quote_secret: "a quote secret for these tests",
    accepted_tokens: [{ ...tokenTable("3200"), rpc_url: undefined }],
  });
  return { ...x402, accepted_tokens: rates.map((rate) => tokenWith(rate)) };
}

type Parts = Parameters<typeof toWholeCatalog>;

const ALL_KINDS = { supports: () => true };

/** Creates a catalog. By default, all tokens are valid, rates are fixed, and a facilitator supports every kind. */
function toCatalog(x402: Parts[0], list: Parts[1], known: Partial<Parts[2]> = {}) {
  return toWholeCatalog(x402, list, {
    ...{ rateOf: fixedRateOf, isTokenValid: () => true, offerable: () => ALL_KINDS },
    ...known,
  });
}

test("a job of the catalog stays the same object until a rate changes", () => {
  let now: string | undefined = "3200";
  const { find } = toCatalog(x402With(live), prices, { rateOf: () => now });
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

test("a catalog that has only fixed rates reads each rate only once", () => {
  let asked = 0;
  const { find } = toCatalog(x402With("3200", "1"), prices, {
    rateOf({ rate_per_native_unit }) {
      asked += 1;
      return String(rate_per_native_unit);
    },
  });
  const before = find(ids);
  const askedOnce = asked;
  for (let i = 0; i < 1000; i++) expect(find(ids)).toBe(before);
  expect(asked).toBe(askedOnce);
  expect(before?.prices).toHaveLength(2);
});

test("a catalog without rate sources offers only the tokens with fixed rates", () => {
  const { find } = toCatalog(x402With("3200", live), prices);
  expect(find(ids)?.prices.map(({ amount }) => amount)).toEqual([3_200_000n]);
});

test("a token with v1 = false is offered only in version 2, whatever versions facilitators support, and other tokens in both", () => {
  const x402 = x402With("3200", "3200");
  const [first, second] = x402.accepted_tokens.map((token, i) => ({ ...token, v1: i === 0 }));
  if (first === undefined || second === undefined) throw new Error("there are two");
  const { find } = toCatalog({ ...x402, accepted_tokens: [first, second] }, prices);
  expect(find(ids)?.prices.map(({ versions }) => versions)).toEqual([
    { v1: true, v2: true },
    { v1: false, v2: true },
  ]);
});

test("a token is offered in the versions that some facilitator supports, and the job object changes when these change", () => {
  type Known = { x402Version: number; network: string };
  const kindsOf = (...known: Known[]) => ({
    supports: ({ x402Version, scheme, network }: Known & { scheme: string }) =>
      scheme === "exact" &&
      known.some((each) => each.x402Version === x402Version && each.network === network),
  });
  const { network } = tokenWith("3200");
  let kinds = kindsOf({ x402Version: 2, network });
  const { find } = toCatalog(x402With("3200"), prices, { offerable: () => kinds });
  const versions = () => find(ids)?.prices.map((price) => price.versions);
  const job = find(ids);
  expect(versions()).toEqual([{ v1: false, v2: true }]);
  expect(find(ids)).toBe(job);

  kinds = kindsOf({ x402Version: 1, network: "base" }, { x402Version: 2, network: "eip155:1" });
  expect(versions()).toEqual([{ v1: true, v2: false }]);

  kinds = kindsOf();
  expect(find(ids)).toMatchObject({ prices: [], unsupported: [`exact on ${network}`] });
  expect(noOfferError(find(ids)!)).toMatchObject({
    code: "price.unavailable",
    message: expect.stringMatching(
      /^no facilitator supports the kinds of its tokens \(exact on eip155:\d+\)/,
    ),
  });
});

test("a page of the list is made once, and made again when a rate changes", () => {
  let now = "3200";
  let found = 0;
  const two = toPriceList([1, 2].map((jobIndex) => ({ serviceId: 1, jobIndex, priceWei: 10n ** 15n })));
  const { find, ...catalog } = toCatalog(x402With(live), two, { rateOf: () => now });
  const counted: typeof find = (job) => {
    found += 1;
    return find(job);
  };
  const listJobs = createListJobs({ ...catalog, find: counted }, "https://pay.example.com");
  const made = listJobs("/x402");
  expect(found).toBe(2);
  for (let i = 0; i < 10; i++) expect(listJobs("/x402?page=1")).toBe(made);
  expect(found).toBe(12);
  now = "3300";
  expect(JSON.parse(listJobs("/x402").toString()).jobs[1].settlement_options[0].amount).toBe("3300000");
});
