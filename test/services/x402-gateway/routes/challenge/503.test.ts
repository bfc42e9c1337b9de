import type { TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { JOB_PATH, PRICE, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();
/** A source that nobody ever answers for. */
const rateless: TomlTable = {
  rate_per_native_unit: { source: "http_json", url: "https://127.0.0.1:1/", pointer: "/rate" },
};

test("without a rate nothing is offered anywhere: 503, whatever is asked, and no facilitator hears of it", async () => {
  const x402 = await fixture.gateway({ token: rateless });
  const asked = {
    unpaid: await x402.post(),
    "a payment that is none": await x402.post({ "PAYMENT-SIGNATURE": "AAAA" }),
    "a dry-run": await x402.post({}, { path: `${JOB_PATH}/auth-dry-run` }),
    price: await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` }),
  };
  for (const [what, answer] of Object.entries(asked)) {
    expect([what, answer.status, answer.json()["code"]]).toEqual([what, 503, "price.unavailable"]);
    expect([what, answer.headers["retry-after"]]).toEqual([what, expect.any(String)]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test("what was offered while there was a rate is paid at its price; version 1, which was quoted nothing, is not", async () => {
  const before = await fixture.gateway();
  const [v2, v1] = [await before.pay({ payer: fixture.payer }), await before.payV1({ payer: fixture.payer })];
  const after = await fixture.gateway({ token: rateless });
  const refused = await after.post(v1);
  expect([refused.status, refused.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect((await after.post(v2)).status).toBe(202);
  expect(await fixture.charged()).toEqual([PRICE]);
});
