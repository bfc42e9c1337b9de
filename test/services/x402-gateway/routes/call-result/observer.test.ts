import type { PaymentPayload } from "@x402/core/types";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { decodeFunctionData, parseAbiItem, parseSignature, serializeSignature } from "viem";
import { expect, test } from "vitest";
import { tokenAbi } from "../../../../../services/dev/chain/contracts/token.ts";
import { paymentCallId } from "../../../../../shared/payments/payment.ts";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { onlyInLongRun } from "../../../../support/long-run.ts";
import { encodeHeader } from "../../../../support/sign-payment.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

const used = parseAbiItem("event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)");

/** Returns the public data of the payment on the chain: the transaction, the payer and the nonce. */
async function seenOnChain() {
  const { chain, token } = fixture.devnet;
  const logs = await chain.client.getLogs({
    address: token,
    event: used,
    args: { authorizer: fixture.payer.address },
    fromBlock: 0n,
  });
  const [{ transactionHash: hash, args } = {}] = logs;
  if (hash === null || hash === undefined || args?.nonce === undefined) throw new Error("no payment is seen");
  return { hash, nonce: args.nonce };
}

/** Rebuilds the payment's header from the calldata of its transaction and an offer that any client can request. */
async function rebuiltHeader(x402: TestX402): Promise<Record<string, string>> {
  const { input } = await fixture.devnet.chain.client.getTransaction({ hash: (await seenOnChain()).hash });
  const { args } = decodeFunctionData({ abi: tokenAbi, data: input });
  const [from, to, value, validAfter, validBefore, nonce, ...signed] = args as [
    ...[string, string, bigint, bigint, bigint, string],
    ...([`0x${string}`] | [number, `0x${string}`, `0x${string}`]),
  ];
  const [first, r, s] = signed;
  const signature =
    typeof first === "string"
      ? serializeSignature(parseSignature(first))
      : serializeSignature({ v: BigInt(first), r: r as `0x${string}`, s: s as `0x${string}` });
  const [accepted] = (await x402.ask()).v2.accepts;
  const texts = { value: String(value), validAfter: String(validAfter), validBefore: String(validBefore) };
  const payload = { signature, authorization: { from, to, nonce, ...texts } };
  return { "PAYMENT-SIGNATURE": encodeHeader({ x402Version: 2, accepted, payload }) };
}

/** Asserts that an answer has only public data: the call is paid for, and there is no access to its result. */
function isTokenless(answer: Answer, id: string): void {
  expect([answer.status, answer.json()["call_id"]]).toEqual([202, id]);
  expect(answer.text).not.toContain("rt_");
  expect(answer.json()).not.toHaveProperty("result_url");
}

test("a stranger who computes a call's id from the chain learns its state word, and nothing about its result", async () => {
  const x402 = await fixture.gateway();
  const bought = await calls.ended(x402, async () => ({ status: 200, body: "forty-two" }));
  const { chainId, token } = fixture.devnet;
  const { nonce } = await seenOnChain();
  const id = paymentCallId({ chainId, method: "eip3009", asset: token, payer: fixture.payer.address, nonce });
  expect(id).toBe(bought.id);
  const get = (below: string) => send(x402.address, { method: "GET", path: `/x402/calls/${id}${below}` });
  expect((await get("")).json()).toEqual({ call_id: id, state: "injected" });
  const answer = await get("/result");
  expect([answer.status, answer.text.includes("forty-two")]).toEqual([402, false]);
});

test("a stranger who rebuilds a payment's header from its calldata and guesses the body gets a 202 without a token", async () => {
  const x402 = await fixture.gateway();
  const { id } = await calls.buy(x402);
  const headers = await rebuiltHeader(x402);
  isTokenless(await x402.post(headers), id);
  isTokenless(await x402.post({ ...headers, Authorization: `Bearer rt_${"A".repeat(43)}` }), id);
  expect((await x402.post(headers, { body: "another guess" })).status).toBe(409);
});

onlyInLongRun(() => {
  test("a repeat with the call's own token gets the token again, and a repeat with another call's token does not", async () => {
    const x402 = await fixture.gateway();
    const { id, token, headers } = await calls.buy(x402);
    const other = await x402.post(await x402.pay({ payer: await newPayer(fixture.devnet) }));
    const again = await x402.post({ ...headers, Authorization: `Bearer ${token}` });
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(again.json()).toMatchObject({ call_id: id, result_token: token });
    const ofOther = String(other.json()["result_token"]);
    isTokenless(await x402.post({ ...headers, Authorization: `Bearer ${ofOther}` }), id);
  });
});

test("a stranger who knows the payment-identifier of a purchase gets neither its token nor its result", async () => {
  const x402 = await fixture.gateway();
  const order = "order_0123456789abcdef";
  const extensions = structuredClone((await x402.ask()).v2.extensions ?? {});
  appendPaymentIdentifierToExtensions(extensions, order);
  const named = { extensions } as Partial<PaymentPayload>;
  const first = await x402.post(await x402.pay({ payer: fixture.payer }, named));
  const id = String(first.json()["call_id"]);
  expect(first.json()).toHaveProperty("result_token");

  const path = `/x402/calls/${id}/result`;
  const asked = [`${path}?token=${order}`, `${path}?payment-identifier=${order}`];
  for (const each of asked)
    expect((await send(x402.address, { method: "GET", path: each })).status).toBe(402);
  const rebuilt = await rebuiltHeader(x402);
  const payload = JSON.parse(Buffer.from(String(rebuilt["PAYMENT-SIGNATURE"]), "base64").toString());
  isTokenless(await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, extensions }) }), id);
  // A payment by the same payer under the same name finds the purchase again. It is no proof either, because its signature went to a
  // facilitator.
  isTokenless(await x402.post(await x402.pay({ payer: fixture.payer }, named)), id);
  const stranger = await x402.pay({ payer: await newPayer(fixture.devnet) }, named);
  expect((await x402.post(stranger)).json()["call_id"]).not.toBe(id);
});

onlyInLongRun(() => {
  test("among copies of a payment sent at once, only the request that claimed it gets the token", async () => {
    const replicas = [await fixture.gateway(), await fixture.gateway()] as const;
    const headers = await replicas[0].pay({ payer: fixture.payer });
    const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => replicas[i % 2]?.post(headers)));
    expect(answers.map((answer) => answer?.status)).toEqual(Array(8).fill(202));
    expect(answers.filter((answer) => answer?.text.includes("rt_"))).toHaveLength(1);
  });

  test("a first request that waits for the chain's proof of its own payment gets the token", async () => {
    const x402 = await fixture.gateway();
    await fixture.devnet.control.fault({ on: "settle", kind: "drop", acts: true, times: 1 });
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
    expect(answer.json()).toHaveProperty("result_token");
  });
});
