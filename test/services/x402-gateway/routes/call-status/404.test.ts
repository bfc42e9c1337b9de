import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test.each([`c_${"0".repeat(32)}`, "nothing", `c_${"0".repeat(31)}`, `c_${"A".repeat(32)}`])(
  "the status of %s, a call that nobody paid for, is 404",
  async (id) => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${id}` });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  },
);
