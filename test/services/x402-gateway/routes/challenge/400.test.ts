import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes } from "../../operator-quotes.ts";

const fixture = useX402();

test.each(["e30=", "", "no quote"])(
  "an unpaid request with an operator's quote that does not read (%j) is refused with 400",
  async (quote) => {
    const x402 = await fixture.gateway(honouringQuotes);
    const answer = await x402.post({ "X-PLATFORM-QUOTE": quote });
    expect([answer.status, answer.json()["code"]]).toEqual([400, "quote.malformed"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  },
);
