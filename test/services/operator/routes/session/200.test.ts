import { expect, test } from "vitest";
import { TOKENS, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a token is exchanged for a session, with which the page asks who it is and what it may see", async () => {
  const { post, get, log } = await fixture.start();
  const began = await post("/session", { token: TOKENS.operator }, { as: "nobody" });
  expect([began.status, began.json()]).toEqual([
    200,
    { name: "otto", role: "operator", ends_at: expect.any(String) },
  ]);
  const headers = { Cookie: String(began.headers["set-cookie"]).split(";")[0] ?? "" };
  expect((await get("/session", { as: "nobody", headers })).json()).toEqual(began.json());
  expect((await get("/api/v1/jobs", { as: "nobody", headers })).status).toBe(200);
  expect(log.events).toContainEqual({
    event: "operator.signed_in",
    fields: { name: "otto", role: "operator", address: "127.0.0.1" },
  });
});

test("who shows a token with the request itself is told whose it is", async () => {
  const { get } = await fixture.start();
  expect((await get("/session", { as: "viewer" })).json()).toEqual({
    ...{ name: "vera", role: "viewer", ends_at: null },
  });
});
