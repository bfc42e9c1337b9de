import fc from "fast-check";
import { expect, test } from "vitest";
import type { Job, Token } from "../../../../services/x402-gateway/offer/catalog.ts";
import { createNarrowOffers } from "../../../../services/x402-gateway/offer/narrow-offers.ts";

const NETWORKS = Array.from({ length: 8 }, (_, index) => `eip155:${index + 1}`);
const tokens = NETWORKS.flatMap((network) => [{ network } as Token, { network } as Token]);
const versions = { v1: true, v2: true };
const prices = tokens.map((token, index) => ({ token, amount: BigInt(index), versions, gasSponsorings: [] }));
const ids = { serviceId: 1, jobIndex: 7 };
const job: Job = { ...ids, priceWei: 1n, policy: { mode: "public_paid" }, prices, unsupported: [] };

test("the number of cached selections is limited to one for each network and one for all, whatever networks clients request", () => {
  const narrowOffers = createNarrowOffers(tokens, 10);
  const keys = new Map<string, unknown>();
  fc.assert(
    fc.property(
      fc.subarray([...NETWORKS, "eip155:99", "x"]),
      fc.constantFrom(",", "&network="),
      (asked, by) => {
        fc.pre(asked.some((network) => NETWORKS.includes(network)));
        const { job: narrowed, key } = narrowOffers.select(job, `/x402/jobs/1/7?network=${asked.join(by)}`);
        expect(narrowed.prices).toEqual(
          prices.filter(({ token }) => asked.includes(token.network)).slice(0, 10),
        );
        if (key === undefined) return;
        // Selections with the same key have the same offers.
        expect(keys.get(key) ?? narrowed.prices).toEqual(narrowed.prices);
        keys.set(key, narrowed.prices);
      },
    ),
    { numRuns: 2000 },
  );
  expect(keys.size).toBeLessThanOrEqual(NETWORKS.length + 1);
});
