import { expect, test } from "vitest";
import { usePricing } from "../../../../fixtures/pricing.ts";
import { send } from "../../../../support/http.ts";

const pricing = usePricing();

test.each(["GET", "PUT", "DELETE"])(
  "the method %s is refused with 405 at a quote, and the answer names POST",
  async (method) => {
    const { http } = await pricing.engine();
    const answer = await send(http.address, { method, path: "/pricing/jobs/42/3/quote" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST, OPTIONS"]);
  },
);
