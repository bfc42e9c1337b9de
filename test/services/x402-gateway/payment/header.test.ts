import type { PaymentRequirements } from "@x402/core/types";
import { describe, expect, test } from "vitest";
import { inTime, JOB_PATH, requiredIn, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { encodeHeader, signPayment } from "../../../support/sign-payment.ts";

const fixture = useX402();
const text = (content: string) => Buffer.from(content).toString("base64");
const DEEP = `${"[".repeat(2500)}${"]".repeat(2500)}`;

const malformed: Record<string, string> = {
  "no base64": "@@@@",
  "base64 with a line in it": `${text('{"x402Version":2}')} `.replace(" ", "=A=="),
  base64url: Buffer.from('{"a":"??>>~~"}').toString("base64url"),
  "base64 without padding": Buffer.from("{}").toString("base64").replace(/=+$/, ""),
  "no JSON": text("hello"),
  "JSON that is cut off": text('{"x402Version":2'),
  null: text("null"),
  "a number": text("1"),
  "a string": text('"x402"'),
  "an array": text("[]"),
  "an array of payments": text('[{"x402Version":2}]'),
  "deep JSON": text(DEEP),
  "a deep object": text(`{"x402Version":2,"payload":${DEEP}}`),
  "an empty object": text("{}"),
  "a version of the future": encodeHeader({ x402Version: 99 }),
  __proto__: text('{"__proto__":{"x402Version":2}}'),
  nothing: "",
};

describe.each(["PAYMENT-SIGNATURE", "X-PAYMENT"])("a malformed %s is a 402 that says so", (name) => {
  test.each(Object.entries(malformed))("%s", async (_what, header) => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({ [name]: header });
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
    expect(requiredIn(answer).error).toMatch(/^payment\.malformed: /);
    expect(requiredIn(answer).accepts).toHaveLength(1);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("a good payment is none in another coding", () => {
  // What makes the codings differ: "?" and ">" in a row give "/" and "+", and one byte more moves the padding.
  const note = { note: "??>>?>?>~~" };
  const codings: Record<string, (json: string, good: string) => string> = {
    base64url: (json) => Buffer.from(json).toString("base64url"),
    "without padding": (_, good) => good.replace(/=+$/, ""),
    "with more padding": (_, good) => `${good}====`,
    "in two parts": (_, good) => `${good.slice(0, 40)} ${good.slice(40)}`,
    "with something behind it": (_, good) => `${good}@@@@`,
    "as bare JSON": (json) => json,
    "longer than 8 KiB": (json) => text(json.replace("??>>", "??>>".padEnd(7000, "?"))),
  };
  test.each(Object.entries(codings))("%s", async (_name, recode) => {
    const x402 = await fixture.gateway();
    const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
    const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
    for (let spaces = 0; spaces < 3; spaces++) {
      const accepted = { ...offer, extra: { ...offer.extra, ...note, note2: " ".repeat(spaces) } };
      const json = JSON.stringify({ ...payload, accepted });
      const recoded = recode(json, text(json));
      if (recoded === text(json)) continue;
      const answer = await x402.post({ "PAYMENT-SIGNATURE": recoded });
      expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.malformed"]);
      expect(answer.json()["detail"]).toMatch(/^the payment header/);
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    const accepted = { ...offer, extra: { ...offer.extra, ...note } };
    expect((await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) })).status).toBe(
      202,
    );
  });
});

test("a header beyond what HTTP takes is 431", async () => {
  const x402 = await fixture.gateway();
  expect((await x402.post({ "PAYMENT-SIGNATURE": "a".repeat(20_000) })).status).toBe(431);
});

describe("more than one payment is 400, and none is taken", () => {
  const both = async (x402: TestX402) => {
    const { "PAYMENT-SIGNATURE": v2 = "" } = await x402.pay({ payer: fixture.payer });
    const { "X-PAYMENT": v1 = "" } = await x402.payV1({ payer: fixture.payer });
    return { v1, v2 };
  };
  test.each([
    ["one of each version", (v1: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", v1]],
    ["the same one twice", (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "payment-signature", v2]],
    ["version 1 twice", (v1: string) => ["X-PAYMENT", v1, "X-Payment", v1]],
    ["one good and one bad", (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", "bad"]],
  ])("%s", async (_name, headersOf) => {
    const x402 = await fixture.gateway();
    const { v1, v2 } = await both(x402);
    const answer = await send(x402.address, { path: JOB_PATH, headers: headersOf(v1, v2), body: "hello" });
    expect([answer.status, answer.json()["code"]]).toEqual([400, "payment.ambiguous"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([]);
  });
});

test("a body over the limit is 413 before money moves, declared or not", async () => {
  const x402 = await fixture.gateway({ x402: { body_limit_bytes: 100 } });
  const payment = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(payment, { body: "a".repeat(101) })).status).toBe(413);
  const chunks = Array.from({ length: 11 }, () => "a".repeat(10));
  const chunked = await send(x402.address, { path: JOB_PATH, headers: payment, body: chunks });
  expect([chunked.status, chunked.json()["code"]]).toEqual([413, "request.too_large"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect((await x402.post(payment, { body: "a".repeat(100) })).status).toBe(202);
});
