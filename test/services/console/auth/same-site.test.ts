import { beforeEach, expect, test } from "vitest";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";

const fixture = useOperator();
const PAUSE = "/api/v1/jobs/7/1/pause";
const body = { reason: "a test" };

let service: TestOperator;
let Cookie: string;
beforeEach(async () => {
  await fixture.redis.client.flushdb();
  service = await fixture.start();
  const began = await service.post("/session", { token: TOKENS.operator }, { as: "nobody" });
  Cookie = String(began.headers["set-cookie"]).split(";")[0] ?? "";
});

const pause = (headers: Record<string, string>) =>
  service.post(PAUSE, body, { as: "nobody", headers: { Cookie, ...headers } });

test("a request of the page with a session may change something, because the browser names this origin", async () => {
  expect((await pause({ Origin: `http://${service.address}` })).status).toBe(200);
  expect((await pause({ "Sec-Fetch-Site": "same-origin" })).status).toBe(200);
});

test.each<[string, Record<string, string>]>([
  ["a page of another origin", { Origin: "https://evil.example.com" }],
  ["a page of another port of this host", { Origin: "http://127.0.0.1:1" }],
  ["a sandboxed page", { Origin: "null" }],
  ["a page of another site, by Fetch Metadata", { "Sec-Fetch-Site": "cross-site" }],
  ["a page of another host of this site", { "Sec-Fetch-Site": "same-site" }],
  [
    "a page whose two headers differ",
    { "Sec-Fetch-Site": "same-origin", Origin: "https://evil.example.com" },
  ],
  ["an unknown page", {}],
  ["the address bar", { "Sec-Fetch-Site": "none" }],
])("a request with a session from %s changes nothing and gets 403", async (_, headers) => {
  expect(refusalOf(await pause(headers))).toEqual([403, "operator.cross_site"]);
  expect((await service.get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
});

test("a body that is not JSON gets 415, because forms of other sites cannot send JSON", async () => {
  const answer = await service.ask("POST", PAUSE, {
    ...{ as: "nobody", path: PAUSE },
    headers: { Cookie, Origin: `http://${service.address}`, "Content-Type": "text/plain" },
  });
  expect(refusalOf(answer)).toEqual([415, "request.media_type_unsupported"]);
});

test("a page of another site can neither sign a user in nor read what a session may read", async () => {
  const Origin = "https://evil.example.com";
  const signIn = await service.post(
    "/session",
    { token: TOKENS.viewer },
    { as: "nobody", headers: { Origin } },
  );
  expect(refusalOf(signIn)).toEqual([403, "operator.cross_site"]);
  expect(signIn.headers["set-cookie"]).toBeUndefined();
  const elsewhere = [{ Origin }, { "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }];
  for (const headers of elsewhere) {
    const read = await service.get("/api/v1/jobs", { as: "nobody", headers: { Cookie, ...headers } });
    expect(refusalOf(read)).toEqual([403, "operator.cross_site"]);
    expect(read.headers["access-control-allow-origin"]).toBeUndefined();
  }
});

test("a request with a token needs no origin, because pages of other sites do not know the token", async () => {
  const headers = { Origin: "https://evil.example.com" };
  expect((await service.post(PAUSE, body, { headers })).status).toBe(200);
});

test("without configured tokens a program on this machine may act, but a page of another site may not", async () => {
  const open = await fixture.start({ operator: { tokens: [] } });
  expect((await open.get("/session", { as: "nobody" })).json()).toEqual({
    ...{ name: "loopback", role: "operator", ends_at: null },
  });
  expect((await open.post(PAUSE, body, { as: "nobody" })).status).toBe(200);
  for (const headers of [{ Origin: "https://evil.example.com" }, { "Sec-Fetch-Site": "cross-site" }])
    expect((await open.post(PAUSE, body, { as: "nobody", headers })).status).toBe(403);
});

test("behind a proxy that sets another Host, only the origin of public_url is this service's own", async () => {
  const behind = await fixture.start({ operator: { public_url: "https://ops.example.com/postern" } });
  const began = await behind.post("/session", { token: TOKENS.operator }, { as: "nobody" });
  const its = String(began.headers["set-cookie"]).split(";")[0] ?? "";
  const pauseFrom = (Origin: string) =>
    behind.post(PAUSE, body, { as: "nobody", headers: { Cookie: its, Origin } });
  expect((await pauseFrom("https://ops.example.com")).status).toBe(200);
  for (const other of [
    "http://ops.example.com",
    "https://ops.example.com:8443",
    "https://ops.example.com.evil",
  ])
    expect([other, ...refusalOf(await pauseFrom(other))]).toEqual([other, 403, "operator.cross_site"]);
});
