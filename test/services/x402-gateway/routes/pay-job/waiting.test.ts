import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { codeOf } from "../../../../support/books.ts";
import { openRaw } from "../../../../support/http.ts";

const fixture = useX402();
const LARGEST = 64 * 1024 * 1024;
/** Limit on concurrent payments if each may have the largest body. */
const PLACES = 16;

test("first requests that wait for their outcome hold no slot and no body, and others buy meanwhile", async () => {
  const x402 = await fixture.gateway({
    x402: { body_limit_bytes: LARGEST, open_payments_per_payer: 100, settle_timeout_secs: 60 },
  });
  const payments = await Promise.all(
    Array.from({ length: PLACES + 1 }, () => x402.pay({ payer: fixture.payer })),
  );
  const last = payments.pop() ?? {};
  await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: PLACES });
  const waiting = await x402.undisturbed(async () => {
    const answers = payments.map((headers) => x402.post(headers, { body: Buffer.alloc(100_000) }));
    const settles = () => x402.log.events.filter(({ event }) => event === "payment.settle_answered").length;
    await eventually("all wait", () => settles() === PLACES);
    await eventually("no body is held", () => x402.gateway.bodyBytes() === 0);
    expect((await x402.post(last)).status).toBe(202);
    return answers;
  });
  x402.skip(60_000);
  for (const answer of await Promise.all(waiting)) expect([202, 503]).toContain(answer.status);
});

test("a first request whose client hangs up while it waits stops waiting, and its payment is charged once", async () => {
  const x402 = await fixture.gateway({ x402: { max_timeout_secs: 200, settle_timeout_secs: 100 } });
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
  const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n`;
  const raw = openRaw(x402.address, `${head}PAYMENT-SIGNATURE: ${headers["PAYMENT-SIGNATURE"]}\r\n\r\nhello`);
  const said = (event: string) => x402.log.events.filter((each) => each.event === event);
  await eventually("it waits", () => said("payment.settle_answered").length === 1);
  expect(said("payment.refused")).toEqual([]);
  raw.socket.destroy();
  await eventually("no request waits", () => said("payment.refused").length === 1);
  expect(said("payment.refused")[0]?.fields["code"]).toBe("payment.outcome_unknown");
  x402.skip(100_000);
  await eventually("its call waits", async () => (await x402.waiting()).length === 1);
  expect(await fixture.charged()).toHaveLength(1);
});

test("a first request is refused with a new offer once the chain shows that its payment can no longer be made", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 500, times: 1 });
  const answered = x402.post(headers);
  await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
  const { payload } = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
  await fixture.devnet.chain.cancelAuthorization(fixture.payer, payload.authorization.nonce);
  await fixture.devnet.chain.finalize();
  const answer = await answered;
  expect([answer.status, codeOf(answer)]).toEqual([402, "payment.void"]);
  expect(answer.headers["payment-required"]).toBeDefined();
  expect(await fixture.charged()).toEqual([]);
});
