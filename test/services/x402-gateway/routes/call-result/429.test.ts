import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { signInAs, signInAskedBy } from "../../../../support/sign-in.ts";
import { buyCall } from "../../sign-in/bought.ts";

const fixture = useX402();

test("a payer who signs in to one call more than sixty times a minute is told when to come back", async () => {
  const { id, payer } = await buyCall(fixture);
  const now = Date.now();
  const { address } = await fixture.gateway({ clock: () => now });
  const get = (headers = {}) => send(address, { method: "GET", path: `/x402/calls/${id}/result`, headers });
  const signIn = async () => get(await signInAs(signInAskedBy(await get()), { payer }));
  for (let i = 0; i < 60; i++) expect((await signIn()).status).toBe(404);
  const answer = await signIn();
  expect([answer.status, answer.json()["code"], answer.headers["retry-after"]]).toEqual([
    429,
    "request.rate_limited",
    "1",
  ]);
});
