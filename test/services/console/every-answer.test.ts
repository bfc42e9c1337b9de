import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../fixtures/console.ts";
import { tempDir } from "../../support/temp-dir.ts";

const fixture = useOperator();

const SECURITY = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

function aPage(): string {
  const dir = tempDir();
  mkdirSync(join(dir, "assets"));
  writeFileSync(join(dir, "index.html"), "<!doctype html><title>Postern</title>");
  writeFileSync(join(dir, "assets/main-abc123.js"), "console.log(1);".repeat(100));
  writeFileSync(join(dir, "notes.txt"), "not a file of the page");
  return dir;
}

test("every answer, including refusals, has headers against sniffing, framing, caching and sharing", async () => {
  const { get, ask } = await fixture.start({ pageDir: aPage() });
  const answers = [
    await get("/api/v1/jobs"),
    await get("/session", { as: "nobody" }),
    await get("/nowhere"),
    await get("/", { as: "nobody" }),
    await ask("PUT", "/api/v1/jobs"),
    await get("/api/v1/jobs", { headers: { Host: "evil.example.com" } }),
  ];
  for (const { headers } of answers) {
    expect(headers).toMatchObject({ ...SECURITY, "cache-control": "no-store" });
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; .*frame-ancestors 'none'/);
    expect(headers["access-control-allow-origin"]).toBeUndefined();
    expect(headers["x-powered-by"]).toBeUndefined();
  }
});

test("the page needs no authentication, and its policy allows nothing inline and nothing from other hosts", async () => {
  const { get } = await fixture.start({ pageDir: aPage() });
  for (const path of ["/", "/index.html"]) {
    const page = await get(path, { as: "nobody" });
    expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = String(page.headers["content-security-policy"]).split("; ");
    for (const closed of ["default-src", "frame-ancestors", "base-uri", "form-action"])
      expect(policy).toContain(`${closed} 'none'`);
    for (const directive of policy) expect(directive).toMatch(/^[a-z-]+ '(?:self|none)'$/);
  }
  const script = await get("/assets/main-abc123.js", {
    as: "nobody",
    headers: { "Accept-Encoding": "gzip" },
  });
  expect(script.headers).toMatchObject({
    "content-encoding": "gzip",
    "cache-control": expect.stringContaining("immutable"),
  });
  expect(gunzipSync(script.body).toString()).toMatch(/^console/);
});

test("only files of the page with known types are served, and nothing else of the disk", async () => {
  const { get } = await fixture.start({ pageDir: aPage() });
  for (const path of [
    "/notes.txt",
    "/../package.json",
    "/assets/..%2findex.html",
    "/assets/../index.html",
    "/assets",
  ])
    expect([path, ...refusalOf(await get(path))]).toEqual([path, 404, "request.not_found"]);
});

test("a page that is not built gets 404, and the answer names the address of the API", async () => {
  const { get } = await fixture.start();
  const answer = await get("/", { as: "nobody" });
  expect([...refusalOf(answer), answer.json()["detail"]]).toEqual([
    ...[404, "request.not_found"],
    expect.stringContaining("/openapi.json"),
  ]);
});

test("a method that a path does not have gets 405, and the answer names the permitted ones", async () => {
  const { ask } = await fixture.start({ pageDir: aPage() });
  const allowed = async (method: string, path: string) => {
    const answer = await ask(method, path);
    return [...refusalOf(answer), answer.headers["allow"]];
  };
  const refused = [405, "request.method_not_allowed"];
  expect(await allowed("PUT", "/api/v1/jobs")).toEqual([...refused, "GET, HEAD"]);
  expect(await allowed("GET", "/api/v1/jobs/7/1/pause")).toEqual([...refused, "POST"]);
  expect(await allowed("PATCH", "/session")).toEqual([...refused, "POST, GET, HEAD, DELETE"]);
  expect(await allowed("POST", "/")).toEqual([...refused, "GET, HEAD"]);
});

test("readiness says how a write is proven to be on disk, and the memory limit of Redis", async () => {
  const { readiness } = await fixture.start();
  expect(readiness().checks).toMatchObject({ redis: "none", maxmemory_bytes: expect.any(Number) });
  const starting = await fixture.start({ redisUrl: "redis://127.0.0.1:1", early: true });
  expect(starting.readiness().checks).toMatchObject({
    redis: expect.stringMatching(/^service\.starting: /),
    maxmemory_bytes: null,
  });
});

test("HEAD gets the headers of GET without the body", async () => {
  const { ask } = await fixture.start();
  const answer = await ask("HEAD", "/api/v1/jobs");
  expect([answer.status, answer.text, Number(answer.headers["content-length"]) > 0]).toEqual([200, "", true]);
});

test("answers are counted by route and status, and a refusal is logged with its code and without its path", async () => {
  const { get, close, log } = await fixture.start();
  for (let i = 0; i < 3; i++) await get("/api/v1/jobs");
  await get("/a-path-with-a-canary");
  await close();
  expect(log.events).toContainEqual({
    event: "operator.answered",
    fields: { route: "GET /api/v1/jobs", status: 200, times: 3 },
  });
  expect(log.events.find(({ event }) => event === "operator.refused")?.fields).toMatchObject({
    ...{ code: "request.not_found", times: 1, address: "127.0.0.1" },
  });
  expect(JSON.stringify(log.events)).not.toContain("canary");
});
