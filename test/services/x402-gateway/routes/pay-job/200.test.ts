import { describe, expect, test } from "vitest";
import { createDeliverResult } from "../../../../../shared/calls/deliver-result.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { createResults } from "../../../../../shared/results/store.ts";
import { JOB_PATH, PUBLIC_URL, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { send } from "../../../../support/http.ts";
import { signInAs, signInAskedBy } from "../../../../support/sign-in.ts";
import { delivered, settlementIn, untilWaiting, usePreferWait, WAIT } from "./prefer-wait.ts";

const fixture = useX402();
const waits = usePreferWait(fixture);

describe("a client that prefers to wait gets from the request that pays", () => {
  test.each([
    { version: 2, header: "payment-response" },
    { version: 1, header: "x-payment-response" },
  ])("the runner's status, type and body, and that it was paid (version $version)", async (by) => {
    const x402 = await fixture.gateway();
    const body = Buffer.from([0, 1, 2, 255]);
    await waits.inject(async () => ({ status: 201, contentType: "image/x", body }));
    const answer = await x402.post({ ...(await waits.payment(x402, { v1: by.version === 1 })), ...WAIT });
    expect([answer.status, answer.headers["content-type"], answer.body]).toEqual([201, "image/x", body]);
    expect(settlementIn(answer, by.header)).toMatchObject({
      success: true,
      payer: fixture.payer.address.toLowerCase(),
    });
    const resultUrl = String(answer.headers["content-location"]);
    expect(answer.headers).toMatchObject({
      ...{ "preference-applied": "wait=30", "access-control-allow-origin": "*", "cache-control": "no-store" },
      "content-location": expect.stringMatching(/^http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}\/result$/),
    });
    expect(answer.headers).not.toHaveProperty("location");
    const asked = await send(x402.address, { method: "GET", path: resultUrl.replace(PUBLIC_URL, "") });
    expect(asked.status, "that the result was given does not make it anybody's").toBe(402);
  });

  test("the result of a long job that its runner delivers meanwhile", async () => {
    const x402 = await fixture.gateway();
    const results = createResults(fixture.redis.partition);
    const deliver = createDeliverResult(fixture.redis.partition);
    const ids: string[] = [];
    await waits.inject(async ({ call }) => {
      ids.push(call.id);
      return { status: 202 };
    });
    const headers = await waits.payment(x402);
    const answer = x402.post({ ...headers, ...WAIT });
    await eventually("the runner has it", async () => (await results.state(ids[0] ?? "")) === "INJECTED");
    expect(x402.gateway.waiting()).toBe(1);
    await deliver(ids[0] ?? "", delivered("at last"));
    expect([(await answer).status, (await answer).text]).toEqual([200, "at last"]);
  });
});

test("preferences in several headers, beside others, are read as one list", async () => {
  const x402 = await fixture.gateway();
  await waits.inject(async () => ({ status: 200, body: "done" }));
  const { "PAYMENT-SIGNATURE": signed = "" } = await waits.payment(x402);
  const prefer = ["Prefer", "respond-async", "Prefer", "handling=lenient, wait=20"];
  const answer = await send(x402.address, {
    path: JOB_PATH,
    headers: ["PAYMENT-SIGNATURE", signed, ...prefer],
    body: "hello",
  });
  expect([answer.text, answer.headers["preference-applied"]]).toEqual(["done", "wait=20"]);
});

describe("a repeat of a payment", () => {
  test("with the call's token waits too, and gets the result", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const token = String((await x402.post(headers)).json()["result_token"]);
    const again = x402.post({ ...headers, ...WAIT, Authorization: `Bearer ${token}` });
    await untilWaiting(x402, 1);
    await waits.endAll(x402);
    expect([(await again).status, (await again).text]).toEqual([200, "done"]);
    expect((await again).headers).toMatchObject({
      ...{ "idempotent-replayed": "true", "preference-applied": "wait=30" },
      "payment-response": expect.any(String),
    });
    const other = await x402.post(await x402.pay({ payer: await newPayer(fixture.devnet) }));
    const stranger = await x402.post({
      ...{ ...headers, ...WAIT },
      Authorization: `Bearer ${String(other.json()["result_token"])}`,
    });
    expect(stranger.status).toBe(202);
  });

  test("by who signs in as its payer waits too, and gets the result", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const id = String((await x402.post(headers)).json()["call_id"]);
    await waits.endAll(x402);
    const path = `/x402/calls/${id}/result`;
    const challenge = await send(x402.address, { method: "GET", path });
    const signed = await signInAs(signInAskedBy(challenge), { payer: fixture.payer });
    const answer = await x402.post({ ...headers, ...WAIT, ...signed });
    expect([answer.status, answer.text]).toEqual([200, "done"]);
  });
});
