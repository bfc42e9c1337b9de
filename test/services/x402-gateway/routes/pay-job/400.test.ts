import { expect, test } from "vitest";
import { JOB_PATH, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { openRaw, send } from "../../../../support/http.ts";
import { honouringQuotes } from "../../operator-quotes.ts";

const fixture = useX402();

/** A payment in each version. */
async function payments(x402: TestX402) {
  const { "PAYMENT-SIGNATURE": v2 = "" } = await x402.pay({ payer: fixture.payer });
  const { "X-PAYMENT": v1 = "" } = await x402.payV1({ payer: fixture.payer });
  return { v1, v2 };
}

test.each([
  ["one payment of each version", (v1: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", v1]],
  ["the same payment twice", (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "payment-signature", v2]],
  ["a version 1 payment twice", (v1: string) => ["X-PAYMENT", v1, "X-Payment", v1]],
  [
    "one good payment and a bad one",
    (_: string, v2: string) => ["PAYMENT-SIGNATURE", v2, "X-PAYMENT", "bad"],
  ],
])("a request with %s is refused with 400, and none is taken", async (_what, headersOf) => {
  const x402 = await fixture.gateway();
  const { v1, v2 } = await payments(x402);
  const answer = await send(x402.address, { path: JOB_PATH, headers: headersOf(v1, v2), body: "hello" });
  expect([answer.status, answer.json()["code"]]).toEqual([400, "payment.ambiguous"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect(await fixture.charged()).toEqual([]);
});

test("a paid request with an operator's quote that does not read is refused with 400", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PLATFORM-QUOTE": "e30=" };
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([400, "quote.malformed"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test("a paid request whose body is chunked wrongly is refused with 400, and not charged", async () => {
  const x402 = await fixture.gateway();
  const { v2 } = await payments(x402);
  const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nPAYMENT-SIGNATURE: ${v2}\r\n\r\n`;
  const raw = openRaw(x402.address, `${head}no number\r\n`);
  await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
  expect(raw.received()).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"request\.malformed"/);
  raw.socket.destroy();
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
