import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test.each(["page=2", "page=0", "page=-1", "page=01", "page=x", "page=", `page=${"9".repeat(400)}`])(
  "a page of the list that is not there (%s) is 404, and the answer says how many there are",
  async (query) => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { method: "GET", path: `/x402?${query}` });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    expect(answer.json()["detail"]).toBe("page is a number from 1 to 1");
  },
);

test.each(["/x402/", "/X402", "/x402/jobs"])("the path %s is 404, and not the list", async (path) => {
  const x402 = await fixture.gateway();
  expect((await send(x402.address, { method: "GET", path })).status).toBe(404);
});
