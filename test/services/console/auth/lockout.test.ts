import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { LONG_RUN, onlyInLongRun } from "../../../support/long-run.ts";

const fixture = useOperator();
const behindProxy = { postern: { http: { trusted_proxies: ["127.0.0.1"] } } };
const from = (address: string, token: string) => ({
  as: "nobody" as const,
  headers: { Authorization: `Bearer ${token}`, "X-Forwarded-For": address },
});
const guess = ({ get }: TestOperator, address: string) =>
  get("/session", from(address, "a-guess-that-is-wrong"));

/** A token in the form of `openssl rand -hex 32`. */
const RANDOM = createHash("sha256").update("a random token of a test").digest("hex");
const NEARLY = `${RANDOM.slice(0, -1)}${RANDOM.endsWith("0") ? "1" : "0"}`;
const withRandom = {
  ...behindProxy,
  operator: {
    tokens: [
      { name: "vera", role: "viewer", token: TOKENS.viewer },
      { name: "otto", role: "operator", token: [TOKENS.operator, RANDOM] },
    ],
  },
  clock: () => 1_800_000_000_000,
};

test("an address that has sent ten wrong tokens is locked out for a while, even with a valid token that could be guessed; other addresses are not", async () => {
  let now = 1_800_000_000_000;
  const service = await fixture.start({ ...behindProxy, clock: () => now });
  for (let i = 0; i < 10; i++) expect((await guess(service, "192.0.2.1")).status).toBe(401);
  const locked = await service.get("/session", from("192.0.2.1", TOKENS.operator));
  expect(refusalOf(locked)).toEqual([429, "request.rate_limited"]);
  expect(Number(locked.headers["retry-after"])).toBeGreaterThan(0);
  const signIn = await service.post(
    "/session",
    { token: TOKENS.operator },
    from("192.0.2.1", TOKENS.operator),
  );
  expect(signIn.status).toBe(429);
  expect((await service.get("/session", from("192.0.2.2", TOKENS.operator))).status).toBe(200);
  now += 6000;
  expect((await service.get("/session", from("192.0.2.1", TOKENS.operator))).status).toBe(200);
});

test("a random token is accepted even if its address sends many wrong ones, with a request and at sign-in", async () => {
  const service = await fixture.start(withRandom);
  for (let i = 0; i < (LONG_RUN ? 30 : 13); i++) {
    const address = `2001:db8::${i.toString(16)}`;
    expect((await guess(service, address)).status).toBe(i < 10 ? 401 : 429);
    expect((await service.get("/session", from(address, RANDOM))).json()).toMatchObject({ name: "otto" });
  }
  const signIn = await service.post("/session", { token: RANDOM }, { ...from("2001:db8::1", RANDOM) });
  expect([signIn.status, signIn.json()["role"]]).toEqual([200, "operator"]);
});

test("an address without tries cannot find out whether a token is valid, even if a random token is configured", async () => {
  const service = await fixture.start(withRandom);
  expect((await service.get("/session", from("192.0.2.1", RANDOM))).status).toBe(200);
  for (let i = 0; i < 10; i++) await guess(service, "192.0.2.1");
  const answers = [];
  for (const token of [TOKENS.operator, TOKENS.viewer, NEARLY, "a-guess-that-is-wrong"])
    for (const ask of [
      () => service.get("/session", from("192.0.2.1", token)),
      () => service.post("/session", { token }, from("192.0.2.1", "")),
    ]) {
      const { status, text, headers } = await ask();
      answers.push(JSON.stringify([status, text, headers["retry-after"], headers["set-cookie"]]));
    }
  expect(JSON.parse(answers[0] ?? "")[0]).toBe(429);
  expect(new Set(answers).size).toBe(1);
});

onlyInLongRun(() => {
  test("wrong tokens of many addresses do not block a random token, nor other tokens of an address that has sent one", async () => {
    const service = await fixture.start(withRandom);
    for (let i = 0; i < 100; i++) expect((await guess(service, `198.51.100.${i}`)).status).toBe(401);
    expect((await service.get("/session", from("203.0.113.1", TOKENS.operator))).status).toBe(429);
    expect((await service.get("/session", from("203.0.113.1", NEARLY))).status).toBe(429);
    expect((await service.get("/session", from("203.0.113.1", RANDOM))).status).toBe(200);
    expect((await service.get("/session", from("203.0.113.1", TOKENS.operator))).status).toBe(200);
  });
});

test("a session continues while its address is locked out, because its cookie cannot be guessed", async () => {
  const service = await fixture.start(behindProxy);
  const began = await service.post("/session", { token: TOKENS.viewer }, { as: "nobody" });
  const Cookie = String(began.headers["set-cookie"]).split(";")[0] ?? "";
  for (let i = 0; i < 11; i++) await guess(service, "127.0.0.1");
  expect((await guess(service, "127.0.0.1")).status).toBe(429);
  expect((await service.get("/session", { as: "nobody", headers: { Cookie } })).status).toBe(200);
});

test("all addresses together may send a hundred wrong tokens a minute, but an address with a recent valid token is not counted", async () => {
  const service = await fixture.start({ ...behindProxy, clock: () => 1_800_000_000_000 });
  expect((await service.get("/session", from("192.0.2.9", TOKENS.operator))).status).toBe(200);
  for (let i = 0; i < 100; i++) expect((await guess(service, `198.51.100.${i}`)).status).toBe(401);
  expect((await guess(service, "198.51.100.200")).status).toBe(429);
  expect((await service.get("/session", from("203.0.113.1", TOKENS.operator))).status).toBe(429);
  expect((await service.get("/session", from("192.0.2.9", TOKENS.operator))).status).toBe(200);
});

test("valid tokens use up no tries, even if many come at once", async () => {
  const service = await fixture.start();
  const many = Array.from({ length: LONG_RUN ? 60 : 20 }, () => service.get("/session"));
  expect((await Promise.all(many)).every(({ status }) => status === 200)).toBe(true);
});
