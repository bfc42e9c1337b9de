import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../fixtures/x402.ts";
import { send } from "../../support/http.ts";

const fixture = useX402();

test("the gateway's health is told as text", async () => {
  const x402 = await fixture.gateway();
  const health = await send(x402.address, { method: "GET", path: "/x402/health" });
  expect([health.status, health.text]).toEqual([200, "ok"]);
});

test("a browser's page may read that a path is 404", async () => {
  const x402 = await fixture.gateway();
  for (const path of ["/x402/jobs/1/%37", "/x402/calls/nothing", "/x402/jobs/1/99"]) {
    const { status, headers } = await x402.post({}, { path });
    expect([status, headers["access-control-allow-origin"]]).toEqual([404, "*"]);
  }
});

test.each([
  ["the default prefix", undefined, ["x-platform-quote", "x-platform-caller-sig"]],
  // The header that a pricing engine's documents name is taken whatever the prefix is.
  ["another prefix", "X-ACME", ["x-acme-quote", "x-platform-quote", "x-acme-caller", "x-acme-caller-nonce"]],
])(
  "a browser's preflight under %s is answered with what a payment needs, and asks for none",
  async (_, prefix, branded) => {
    const x402 = await fixture.gateway(prefix === undefined ? {} : { metadataPrefix: prefix });
    const wanted = [
      ...["payment-signature", "x-payment", "content-type", "access-control-expose-headers"],
      ...["sign-in-with-x", ...branded],
    ];
    const answer = await send(x402.address, {
      method: "OPTIONS",
      path: JOB_PATH,
      headers: {
        Origin: "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": wanted.join(","),
      },
    });
    expect(answer.status).toBe(204);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    expect(answer.headers["access-control-allow-methods"]).toContain("POST");
    const allowed = String(answer.headers["access-control-allow-headers"]).toLowerCase().split(", ");
    expect(allowed).toEqual(expect.arrayContaining(wanted));
  },
);
