import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { rateless } from "../../rateless.ts";

const fixture = useX402();

test("the price of a job is 503 while no token has a rate", async () => {
  const x402 = await fixture.gateway({ token: rateless });
  const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });
  expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
});
