import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { createRouter } from "../../../shared/http/router.ts";

const ROUTES = [
  { method: "GET", path: "/calls" },
  { method: "POST", path: "/calls" },
  { method: "GET", path: "/calls/{call_id}" },
  { method: "GET", path: "/calls/count" },
  { method: "GET", path: "/jobs/{job+}" },
  { method: "POST", path: "/jobs/{job+}/pause" },
  { method: "GET", path: "/openapi.json" },
];
const ALL = [
  ...ROUTES,
  ...[...new Set(ROUTES.map(({ path }) => path))].map((path) => ({ method: "OPTIONS", path })),
];

function ask(method: string, url: string) {
  const req = Object.assign(new IncomingMessage(new Socket()), { method, url });
  const res = new ServerResponse(req);
  const router = createRouter(ALL);
  try {
    const found = router.find(req, res);
    return found && [router.nameOf(req), found.params];
  } catch (error) {
    return [(error as { code: string }).code, router.nameOf(req), res.getHeader("allow")];
  }
}

test("a request finds the route of its method and raw path, with undecoded parameters", () => {
  expect(ask("GET", "/calls?limit=1")).toEqual(["GET /calls", {}]);
  expect(ask("POST", "/calls")).toEqual(["POST /calls", {}]);
  expect(ask("GET", "/calls/c%2Fx")).toEqual(["GET /calls/{call_id}", { call_id: "c%2Fx" }]);
  expect(ask("GET", "/calls/count")).toEqual(["GET /calls/count", {}]);
});

test("a parameter with a plus matches one or more segments, and a path with more literal text goes first", () => {
  expect(ask("GET", "/jobs/callback/a.example/8443")).toEqual([
    ...["GET /jobs/{job+}", { job: "callback/a.example/8443" }],
  ]);
  expect(ask("POST", "/jobs/7/1/pause")).toEqual(["POST /jobs/{job+}/pause", { job: "7/1" }]);
  expect(ask("GET", "/jobs/7/1/pause")).toEqual([
    ...["request.method_not_allowed", undefined, "POST, OPTIONS"],
  ]);
});

test("HEAD finds the route of GET, and a method that the path does not accept is refused with the accepted ones", () => {
  expect(ask("HEAD", "/calls")).toEqual(["GET /calls", {}]);
  expect(ask("PUT", "/calls")).toEqual(["request.method_not_allowed", undefined, "GET, HEAD, POST, OPTIONS"]);
});

test("a path that only resembles a route's path finds no route", () => {
  for (const path of ["/calls/", "/Calls", "//calls", "/calls/a/b", "/calls/%2e%2e/x", "/openapi-json", "/x"])
    expect([path, ask("GET", path)]).toEqual([path, undefined]);
});

test("a very long name, or one with many segments, is matched quickly", () => {
  expect(ask("GET", `/calls/${"a".repeat(257)}`)).toBeUndefined();
  const began = performance.now();
  ask("GET", `/jobs/${"a/".repeat(8000)}`);
  expect(performance.now() - began).toBeLessThan(200);
});
