import { expect, test } from "vitest";
import { JOB_PATH, PRICE, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { openRaw } from "../../../../support/http.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";
import { DELEGATED, proofOf, restrictedJobs } from "../../restricted-jobs.ts";

const fixture = useX402();
const DRY_RUN = `${JOB_PATH}/auth-dry-run`;

test("a payment that would be taken is allowed by a dry-run, as often as it is asked, and then bought", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  for (let i = 0; i < 2; i++) {
    expect((await x402.post(headers, { path: DRY_RUN })).json()).toEqual({
      allowed: true,
      mode: "public_paid",
    });
  }
  expect((await fixture.asked()).settle).toBe(0);
  expect((await x402.post(headers)).status).toBe(202);
  expect((await x402.post(headers, { path: DRY_RUN })).json()).toMatchObject({ allowed: true });
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a dry-run without a payment allows everybody a job that anybody may buy", async () => {
  const x402 = await fixture.gateway();
  const answer = await x402.post({}, { path: DRY_RUN });
  expect([answer.status, answer.json()]).toEqual([200, { allowed: true, mode: "public_paid" }]);
});

test("a dry-run without a payment allows a permitted caller's proof, and does not use up its nonce", async () => {
  const caller = await newPayer(fixture.devnet, 0n);
  await fixture.devnet.chain.permitCaller(1n, caller.address);
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const proof = await proofOf({ by: caller });
  for (let i = 0; i < 2; i++) {
    const answer = await x402.post(proof, { path: `${DELEGATED}/auth-dry-run` });
    expect([answer.status, answer.json()["caller"]]).toEqual([200, caller.address.toLowerCase()]);
  }
});

test("a dry-run without a payment allows an operator's quote that is honoured", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const answer = await x402.post(signQuote(quoteOf(fixture.payer)).header, { path: DRY_RUN });
  expect([answer.status, answer.json()["allowed"]]).toEqual([200, true]);
});

test("a dry-run of a job that anybody may buy waits for no body, with a payment or without", async () => {
  const x402 = await fixture.gateway();
  const payment = await x402.pay({ payer: fixture.payer });
  for (const headers of [{}, payment]) {
    const lines = Object.entries({ Host: "x", "Content-Length": "1048576", ...headers });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const raw = openRaw(x402.address, `POST ${JOB_PATH}/auth-dry-run HTTP/1.1\r\n${head}\r\n`);
    await expect.poll(raw.received, { timeout: 10_000 }).toMatch(/"allowed":true/);
    raw.socket.destroy();
  }
});
