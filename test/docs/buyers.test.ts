import { expect, test } from "vitest";
import { useX402 } from "../fixtures/x402.ts";
import { BUYERS, tryBuyer } from "./buyers.ts";

const fixture = useX402();

test("docs/payments.md shows a buyer in Python, Go and Rust beside the one in TypeScript, each with POST, a body and a purchase's name", () => {
  expect(BUYERS.map(({ language }) => language)).toEqual(["python", "go", "rust"]);
  for (const { text } of BUYERS) {
    expect(text).toMatch(/post/i);
    expect(text).toContain("hello");
    expect(text).toMatch(/append_payment_identifier_to_extensions|Idempotency-Key/);
  }
});

test.for(BUYERS)(
  "the buyer in $language of docs/payments.md buys a job, and is charged once however often it runs",
  async (block, { skip }) => {
    const x402 = await fixture.gateway({ prices: { "1": "10000000000000" } });
    for (let times = 0; times < 2; times++) {
      const tried = await tryBuyer(block, x402.address, fixture.payer.privateKey);
      if (tried.kind === "no tools") return skip(tried.missing);
      expect(tried.stdout).toMatch(/^202 http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}\n$/);
    }
    expect(await fixture.charged()).toEqual([32_000n]);
  },
);
