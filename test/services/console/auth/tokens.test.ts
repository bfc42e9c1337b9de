import { beforeEach, expect, test } from "vitest";
import { CONTRACT } from "../../../../shared/console/contract/contract.ts";
import type { Operation } from "../../../../shared/console/contract/operation.ts";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { send } from "../../../support/http.ts";

const fixture = useOperator();
let service: TestOperator;
beforeEach(async () => {
  service = await fixture.start();
});

/** Returns a path of the route, with names of things that do not exist. */
function pathOf({ path }: { path: string }): string {
  return path.replace("{call_id}", `c_${"0".repeat(32)}`).replaceAll(/\{\w+\+?\}/g, "1");
}

const ROUTES: readonly Operation[] = Object.values(CONTRACT);
const guarded = ROUTES.filter(({ role }) => role !== "anybody");
const acting = ROUTES.filter(({ role }) => role === "operator");

test("every route that needs authentication answers 401 without a credential, and says how to send one", async () => {
  for (const route of guarded) {
    const answer = await service.ask(route.method, pathOf(route), { as: "nobody" });
    expect([route.path, ...refusalOf(answer)]).toEqual([route.path, 401, "operator.unauthorized"]);
    expect(answer.headers["www-authenticate"]).toBe('Bearer realm="postern operator"');
  }
});

test("a viewer may not use any route that changes something, and learns that before the input is validated", async () => {
  expect(acting.length).toBeGreaterThan(0);
  for (const route of acting) {
    const answer = await service.ask(route.method, pathOf(route), { as: "viewer", json: { nonsense: 1 } });
    expect([route.path, ...refusalOf(answer)]).toEqual([route.path, 403, "operator.forbidden"]);
  }
  for (const { method, role, path } of ROUTES.filter(({ path }) => path.startsWith("/api/")))
    expect([path, role]).toEqual([path, method === "GET" ? "viewer" : "operator"]);
});

test.each([
  ["a wrong token", "Bearer a-token-that-nobody-has-here"],
  ["the beginning of a token", `Bearer ${TOKENS.operator.slice(0, -1)}`],
  ["more than a token", `Bearer ${TOKENS.operator}x`],
  ["another scheme", `Basic ${Buffer.from(`otto:${TOKENS.operator}`).toString("base64")}`],
  ["the token alone", TOKENS.operator],
  ["nothing behind the scheme", "Bearer "],
])("%s is refused with 401", async (_, Authorization) => {
  const answer = await service.get("/api/v1/jobs", { as: "nobody", headers: { Authorization } });
  expect(refusalOf(answer)).toEqual([401, "operator.unauthorized"]);
});

test("two tokens in one request are refused, even if both are valid", async () => {
  const good = ["Authorization", `Bearer ${TOKENS.operator}`];
  const twice = await send(service.address, {
    ...{ method: "GET", path: "/api/v1/jobs", headers: [...good, ...good] },
  });
  expect(refusalOf(twice)).toEqual([401, "operator.unauthorized"]);
});

test("every token of a name is accepted, so that one can be rotated", async () => {
  const tokens = [{ name: "otto", role: "operator", token: ["the-new-token-of-otto", TOKENS.operator] }];
  const rotating = await fixture.start({ operator: { tokens } });
  for (const token of ["the-new-token-of-otto", TOKENS.operator]) {
    const headers = { Authorization: `Bearer ${token}` };
    expect((await rotating.get("/session", { as: "nobody", headers })).json()).toMatchObject({
      name: "otto",
    });
  }
});

test("a wrong credential causes no request to Redis, and no log line or answer contains a token", async () => {
  const secrets = [...Object.values(TOKENS), "a-wrong-token-with-a-canary"];
  const headers = { Authorization: "Bearer a-wrong-token-with-a-canary" };
  const answers = [
    await service.get("/api/v1/jobs", { as: "nobody", headers }),
    await service.post("/session", { token: "a-wrong-token-with-a-canary" }, { as: "nobody" }),
    await service.post("/session", { token: TOKENS.viewer }, { as: "nobody" }),
    await service.get(`/api/v1/jobs?token=${TOKENS.viewer}`),
    await service.get(`/${TOKENS.viewer}`),
    await service.get("/session"),
  ];
  await service.close();
  const output = JSON.stringify([
    service.log.events,
    answers.map(({ headers: given, text }) => [given, text]),
  ]);
  for (const secret of secrets) expect(output.includes(secret), secret).toBe(false);
});
