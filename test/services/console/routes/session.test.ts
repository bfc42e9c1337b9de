import { describe, expect, test } from "vitest";
import { refusalOf, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { audited } from "../../../support/audited.ts";

const fixture = useOperator();

describe("200", () => {
  test("a token is exchanged for a session, with which the page reads its user and role", async () => {
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
      fields: {
        ...{ action: "sign_in", session: expect.any(String), by: "otto" },
        selection: "operator from 127.0.0.1",
      },
    });
  });

  test("a session writes an audit line when it begins and when it ends, and none when its end is repeated", async () => {
    const { post, ask } = await fixture.start();
    await post("/session", { token: "wrong" }, { as: "nobody" });
    const began = await post("/session", { token: TOKENS.viewer }, { as: "nobody" });
    const headers = { Cookie: String(began.headers["set-cookie"]).split(";")[0] ?? "" };
    const own = { "Sec-Fetch-Site": "same-origin", ...headers };
    for (let i = 0; i < 2; i++) await ask("DELETE", "/session", { as: "nobody", headers: own });
    const lines = (await audited(fixture.redis.client)).slice(-2);
    expect(lines).toMatchObject([
      { action: "sign_in", by: "vera", selection: "viewer from 127.0.0.1" },
      { action: "sign_out", by: "vera", session: lines[0]?.["session"] },
    ]);
    expect(headers.Cookie).toContain(`.${lines[0]?.["session"]}.`);
  });

  test("a request with a token gets the name and role of the token", async () => {
    const { get } = await fixture.start();
    expect((await get("/session", { as: "viewer" })).json()).toEqual({
      ...{ name: "vera", role: "viewer", ends_at: null },
    });
  });
});

describe("204", () => {
  test("ending no session is not logged, so that a stranger cannot fill the log", async () => {
    const { ask, log } = await fixture.start();
    for (let i = 0; i < 3; i++) await ask("DELETE", "/session", { as: "nobody" });
    expect(log.events.map(({ event }) => event)).not.toContain("operator.signed_out");
  });

  test("ending a session that does not exist also gets 204", async () => {
    const { ask } = await fixture.start();
    expect((await ask("DELETE", "/session", { as: "nobody" })).status).toBe(204);
  });
});

describe("400", () => {
  test.each([[{}], [{ token: 1 }], [{ token: "x", role: "operator" }], [[]], ["text"]])(
    "a session is refused with 400 for %j, which is no token",
    async (json) => {
      const { post } = await fixture.start();
      expect(refusalOf(await post("/session", json, { as: "nobody" }))).toEqual([400, "request.malformed"]);
    },
  );

  test("a session is refused with 400 for JSON that is too deep to be parsed", async () => {
    const { post } = await fixture.start();
    const deep = JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`);
    const answer = await post("/session", deep, { as: "nobody" });
    expect([answer.status, answer.json()["detail"]]).toEqual([
      400,
      "body: is nested more than 64 levels deep",
    ]);
  });
});

describe("401", () => {
  test("an unknown token begins no session: 401, and no cookie", async () => {
    const { post } = await fixture.start();
    const answer = await post("/session", { token: "not-known-to-anybody-here" }, { as: "nobody" });
    expect(refusalOf(answer)).toEqual([401, "operator.unauthorized"]);
    expect(answer.headers["set-cookie"]).toBeUndefined();
  });
});
