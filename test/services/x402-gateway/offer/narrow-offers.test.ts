import fc from "fast-check";
import { expect, test } from "vitest";
import type { Job, Token } from "../../../../services/x402-gateway/offer/catalog.ts";
import { createNarrowOffers } from "../../../../services/x402-gateway/offer/narrow-offers.ts";

const NETWORKS = Array.from({ length: 8 }, (_, index) => `eip155:${index + 1}`);
const tokens = NETWORKS.flatMap((network) => [{ network } as Token, { network } as Token]);
const versions = { v1: true, v2: true };
const prices = tokens.map((token, index) => ({ token, amount: BigInt(index), versions }));
const ids = { serviceId: 1, jobIndex: 7 };
const job: Job = { ...ids, priceWei: 1n, policy: { mode: "public_paid" }, prices, unsupported: [] };

test("whatever networks strangers ask for, no more choices have a key than there are networks, and one more", () => {
  const narrowOffers = createNarrowOffers(tokens, 10);
  const keys = new Map<string, unknown>();
  fc.assert(
    fc.property(
      fc.subarray([...NETWORKS, "eip155:99", "x"]),
      fc.constantFrom(",", "&network="),
      (asked, by) => {
        fc.pre(asked.some((network) => NETWORKS.includes(network)));
        const { job: narrowed, key } = narrowOffers.wanted(job, `/x402/jobs/1/7?network=${asked.join(by)}`);
        expect(narrowed.prices).toEqual(
          prices.filter(({ token }) => asked.includes(token.network)).slice(0, 10),
        );
        if (key === undefined) return;
        // What has the same key is the same answer.
        expect(keys.get(key) ?? narrowed.prices).toEqual(narrowed.prices);
        keys.set(key, narrowed.prices);
      },
    ),
    { numRuns: 2000 },
  );
  expect(keys.size).toBeLessThanOrEqual(NETWORKS.length + 1);
});
