import { beforeAll, expect, test } from "vitest";
import { type Engine, usePricing, wireRequest } from "../../fixtures/pricing.ts";
import { send } from "../../support/http.ts";
import { toJson } from "./routes/quote/quote-request.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine();
});

const QUOTE = "/pricing/jobs/42/3/quote";
const Origin = "https://shop.example";

test("a browser's preflight for a quote permits the request's headers, for every origin and without credentials", async () => {
  const wanted = ["content-type", "traceparent"];
  const { status, headers, text } = await send(engine.http.address, {
    method: "OPTIONS",
    path: QUOTE,
    headers: {
      Origin,
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": wanted.join(","),
    },
  });
  expect([status, text, headers["access-control-allow-origin"]]).toEqual([204, "", "*"]);
  expect(headers["access-control-allow-methods"]).toBe("POST");
  const allowed = String(headers["access-control-allow-headers"]).toLowerCase().split(", ");
  expect(allowed).toEqual(expect.arrayContaining(wanted));
  expect(headers).not.toHaveProperty("access-control-allow-credentials");
});

test.each<[number, string, string, object]>([
  [200, "POST", QUOTE, toJson(wireRequest())],
  [400, "POST", QUOTE, {}],
  [404, "POST", "/pricing/jobs/42/9/quote", toJson(wireRequest({ job_index: 9 }))],
  [404, "OPTIONS", "/pricing", {}],
  [405, "PUT", QUOTE, {}],
  [503, "POST", QUOTE, toJson(wireRequest({ require_tee: true }))],
])(
  "a page in a browser may read an answer of %i to %s %s, and its Retry-After",
  async (status, method, path, json) => {
    const answer = await send(engine.http.address, {
      method,
      path,
      headers: { Origin },
      body: JSON.stringify(json),
    });
    expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([status, "*"]);
    expect(String(answer.headers["access-control-expose-headers"]).split(", ")).toContain("Retry-After");
  },
);
