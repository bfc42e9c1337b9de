import { expect, test } from "vitest";
import { usePricing } from "../../../../fixtures/pricing.ts";
import { send } from "../../../../support/http.ts";

const pricing = usePricing();

test("a request for a quote whose body is over 16 KiB is refused with 413", async () => {
  const { http } = await pricing.engine();
  const body = JSON.stringify({ a: "x".repeat(17_000) });
  const large = await send(http.address, { path: "/pricing/jobs/42/3/quote", body });
  expect(large.json()).toMatchObject({ status: 413, code: "request.too_large" });
});
