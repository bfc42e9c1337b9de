import { ExactEvmScheme } from "@x402/evm/exact/client";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { createSIWxClientHook } from "@x402/extensions/sign-in-with-x";
import { wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
import { expect, test } from "vitest";
import type { Inject } from "../../../../services/producer/producer.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { JOB_PATH, PUBLIC_URL, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { paymentIn } from "../../../support/books.ts";
import { newPayer } from "../../../support/devnet.ts";
import { type Answer, send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { messageSigner, signInAs, signInAskedBy } from "../../../support/sign-in.ts";
import { clientSigner, type Payer } from "../../../support/sign-payment.ts";
import { newWallet } from "../../../support/wallets.ts";
import { countingNode } from "../counting-node.ts";
import { buyCall } from "./bought.ts";

const fixture = useX402();
const ends = useEnds();
const startInjecting = useInjecting(fixture.redis, "x402");

/** A `fetch` that sends requests for the public URL to the gateway. It passes the headers that it sends to `onSent`. */
function fetchAt({ address }: TestX402, onSent = (_headers: Record<string, string>) => {}): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    onSent(Object.fromEntries(request.headers));
    const moved = new Request(request.url.replace(PUBLIC_URL, `http://${address}`), request);
    const { status, headers, body } = await fetch(moved);
    return new Response(body, { status, headers });
  };
}

/** The official client with only the ability to sign in. */
function signingIn(x402: TestX402, payer: Payer): typeof fetch {
  const client = new x402HTTPClient(new x402Client());
  client.onPaymentRequired(createSIWxClientHook(messageSigner(payer)));
  return wrapFetchWithPayment(fetchAt(x402), client);
}

const identified = "order_0123456789abcdef";

/** Buys with the official client and loses its 202. Returns the headers that it sent with the payment. */
async function buyAndLose(x402: TestX402, payer: Payer): Promise<Record<string, string>> {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(clientSigner(payer)));
  client.setSpendControls(false);
  client.onBeforePaymentCreation(async ({ paymentRequired }) => {
    appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, identified);
  });
  let sent: Record<string, string> = {};
  const at = fetchAt(x402, (headers) => {
    sent = headers;
  });
  const losing: typeof fetch = async (input, init) => {
    const answer = await at(input, init);
    if (answer.status === 202) throw new Error("the connection broke");
    return answer;
  };
  const buying = wrapFetchWithPayment(losing, client)(`${PUBLIC_URL}${JOB_PATH}`, {
    method: "POST",
    body: "hello",
  });
  await expect(buying).rejects.toThrow("the connection broke");
  return sent;
}

/** Takes the call of this payment with a producer, so that the fixture does not count it as waiting. */
async function produce(headers: Record<string, string>, inject: Inject): Promise<void> {
  const upper = { "PAYMENT-SIGNATURE": headers["payment-signature"] ?? "" };
  fixture.foreign.push(paymentIn(upper)?.nonce ?? "");
  await startInjecting(inject);
}

const reverse: Inject = async ({ body }) => ({
  status: 200,
  contentType: "text/plain",
  body: body.toString().split("").reverse().join(""),
});

function get(x402: TestX402, path: string, headers: Record<string, string> = {}): Promise<Answer> {
  return send(x402.address, { method: "GET", path, headers });
}

const payers = [
  ["a key", async () => fixture.payer as Payer],
  ["a wallet", async () => newWallet(fixture.devnet) as Promise<Payer>],
] as const;

test.each(sample(payers))(
  "%s that has bought with the official client, and lost the 202, gets the job's output from the official client",
  async (_what, payerOf) => {
    const x402 = await fixture.gateway();
    const payer = await payerOf();
    fixture.payer = payer;
    const sent = await buyAndLose(x402, payer);
    await produce(sent, reverse);

    const repeat = await send(x402.address, {
      path: JOB_PATH,
      headers: { "PAYMENT-SIGNATURE": String(sent["payment-signature"]) },
      body: "hello",
    });
    expect([repeat.status, repeat.headers["idempotent-replayed"]]).toEqual([202, "true"]);
    expect(repeat.text).not.toMatch(/rt_|result_/);
    const { call_id: id } = repeat.json<{ call_id: string }>();
    const url = `${PUBLIC_URL}/x402/calls/${id}/result`;
    const answer = await eventually("the call has ended", async () => {
      const asked = await signingIn(x402, payer)(url);
      return asked.status === 404 ? undefined : asked;
    });
    expect([answer.status, answer.headers.get("content-type"), await answer.text()]).toEqual([
      200,
      "text/plain",
      "olleh",
    ]);
    const thief = await newPayer(fixture.devnet);
    await expect(signingIn(x402, thief)(url)).rejects.toThrow("Failed to create payment payload");
  },
);

test("a stranger who has rebuilt the payment, or knows its identifier, gets no result with either", async () => {
  const x402 = await fixture.gateway();
  const sent = await buyAndLose(x402, fixture.payer);
  await produce(sent, reverse);
  const payment = String(sent["payment-signature"]);
  const seen = { "PAYMENT-SIGNATURE": payment, "Idempotency-Key": identified };
  const repeat = await send(x402.address, { path: JOB_PATH, headers: seen, body: "hello" });
  const path = `/x402/calls/${String(repeat.json()["call_id"])}/result`;
  const { signature } = JSON.parse(Buffer.from(payment, "base64").toString()).payload;
  const asked = signInAskedBy(await get(x402, path));
  const withPayments = await signInAs(asked, { payer: fixture.payer, sent: { signature } });
  const tries: Record<string, string>[] = [
    seen,
    { "X-PAYMENT": payment },
    { Authorization: `Bearer ${identified}` },
    { "SIGN-IN-WITH-X": payment },
    withPayments,
  ];
  for (const headers of tries) {
    const answer = await get(x402, path, headers);
    expect([answer.status, answer.json()["code"]]).toEqual([402, "result.sign_in_required"]);
    expect(answer.text).not.toContain("olleh");
  }
});

test("a payer who signs in before a call has ended is answered that it has not ended, and when to ask again", async () => {
  const { x402, id, payer } = await buyCall(fixture);
  const path = `/x402/calls/${id}/result`;
  const asked = signInAskedBy(await get(x402, path));
  const answer = await get(x402, path, await signInAs(asked, { payer }));
  expect([answer.status, answer.json()["code"], answer.headers["retry-after"]]).toEqual([
    404,
    "result.pending",
    "2",
  ]);
});

onlyInLongRun(() => {
  test("a payer who signs in sees when the call was accepted and how many attempts it had, and other clients see only its state", async () => {
    const { x402, id, payer } = await buyCall(fixture);
    const asked = signInAskedBy(await get(x402, `/x402/calls/${id}/result`));
    const stranger = await newPayer(fixture.devnet, 0n);
    const strangers = await get(x402, `/x402/calls/${id}`, await signInAs(asked, { payer: stranger }));
    expect(strangers.json()).toEqual({ call_id: id, state: "queued" });
    const his = await get(x402, `/x402/calls/${id}`, await signInAs(asked, { payer }));
    expect(his.json()).toMatchObject({
      state: "queued",
      accepted_at: expect.any(Number),
      attempts: expect.anything(),
    });
  });
});

test("a repeat of a payment gets its token with a valid sign-in, and its 202 without a token otherwise", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const first = await x402.post(headers);
  const path = new URL(String(first.json()["status_url"])).pathname;
  const asked = signInAskedBy(await get(x402, `${path}/result`));
  const stranger = await newPayer(fixture.devnet, 0n);
  const bad = await x402.post({ ...headers, ...(await signInAs(asked, { payer: stranger })) });
  expect([bad.status, bad.json()["result_token"]]).toEqual([202, undefined]);
  const good = await x402.post({ ...headers, ...(await signInAs(asked, { payer: fixture.payer })) });
  expect([good.status, good.json()]).toEqual([202, first.json()]);
  expect(good.json()["result_token"]).toMatch(/^rt_/);
});

onlyInLongRun(() => {
  test("a wallet's repeat gets its 202 even while no node can check its sign-in, and the token later", async () => {
    const node = await countingNode(fixture.devnet.rpcUrl);
    ends.defer(node.close);
    const x402 = await fixture.gateway({ token: { rpc_url: node.url } });
    const payer = await newWallet(fixture.devnet);
    fixture.payer = payer;
    const headers = await x402.pay({ payer });
    const first = await x402.post(headers);
    const path = new URL(String(first.json()["status_url"])).pathname;
    const signedIn = await signInAs(signInAskedBy(await get(x402, `${path}/result`)), { payer });
    node.isAway = true;
    const away = await x402.post({ ...headers, ...signedIn });
    expect([away.status, away.json()["result_token"]]).toEqual([202, undefined]);
    node.isAway = false;
    const back = await x402.post({ ...headers, ...signedIn });
    expect(back.json()).toEqual(first.json());
  });

  test("the signed URL is the public one, whatever Host and query the request has", async () => {
    const { x402, id, payer } = await buyCall(fixture);
    const path = `/x402/calls/${id}/result?token=rt_nonsense`;
    const asked = signInAskedBy(await get(x402, path, { Host: "evil.test" }));
    expect(asked.info).toMatchObject({ domain: "pay.test", uri: `${PUBLIC_URL}/x402/calls/${id}/result` });
    const answer = await get(x402, path, { Host: "evil.test", ...(await signInAs(asked, { payer })) });
    expect(answer.json()["code"]).toBe("result.pending");
  });
});
