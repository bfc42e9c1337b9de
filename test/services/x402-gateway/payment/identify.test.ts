import type { IncomingMessage } from "node:http";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { Token } from "../../../../services/x402-gateway/offer/catalog.ts";
import {
  digestOf,
  identifyPayment,
  inAcceptedToken,
  readPayment,
  type SignedPayment,
} from "../../../../services/x402-gateway/payment/header.ts";
import { METHODS } from "../../../../services/x402-gateway/schemes/registry.ts";
import { toHex } from "../../../../shared/chain/encoding.ts";
import type { TransferMethod } from "../../../../shared/chain/payment-schemes.ts";
import { permit2Separator } from "../../../../shared/chain/permit2.ts";
import { createSigner } from "../../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../../shared/chain/typed-data.ts";
import { signPermit2Payment } from "../../../support/permit2.ts";
import { encodeHeader, signPayment } from "../../../support/sign-payment.ts";

const NETWORK = "eip155:84532";
const CHAIN_ID = 84_532;
const ASSET = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
const SELLER = `0x${"5".repeat(40)}` as const;

function token(method: TransferMethod, name = "USDC"): Token {
  const domain = { name, version: "2" };
  const separator =
    method === "permit2"
      ? permit2Separator(CHAIN_ID)
      : domainSeparator({ ...domain, chainId: CHAIN_ID, verifyingContract: ASSET });
  return {
    ...{
      network: NETWORK,
      chainId: CHAIN_ID,
      asset: ASSET,
      symbol: "USDC",
      payTo: SELLER,
      scheme: "exact",
      method: METHODS[method],
      separator,
    },
    extra: method === "permit2" ? { assetTransferMethod: "permit2" } : domain,
    ...{ v1Network: undefined, v1: false },
  };
}

function offerOf({ network, asset, payTo, extra }: Token) {
  const terms = { scheme: "exact", network: network as `eip155:${string}`, asset, payTo, amount: "5" };
  return { ...terms, maxTimeoutSeconds: 60, extra: { ...extra } };
}

function payer() {
  const privateKey = generatePrivateKey();
  return { address: privateKeyToAccount(privateKey).address, privateKey };
}

function decodedOf(payload: object) {
  const header = encodeHeader(payload);
  const req = {
    headers: { "payment-signature": header },
    rawHeaders: ["PAYMENT-SIGNATURE", header],
    headersDistinct: { "payment-signature": [header] },
  };
  return readPayment(req as unknown as IncomingMessage);
}

test("a wallet's payment is recognised after the name of its token was changed in the configuration", async () => {
  const its = { ...payer(), wrap: async () => `0x${"ab".repeat(80)}` as const };
  const { payload } = await signPayment(offerOf(token("eip3009")), { payer: its });
  const nameOf = ({ callId, signedSha256 }: SignedPayment) => [callId, signedSha256];
  const then = identifyPayment(decodedOf(payload), [token("eip3009")]);
  const changed = identifyPayment(decodedOf(payload), [token("eip3009", "USD Coin")]);
  const gone = identifyPayment(decodedOf(payload), []);
  expect(then.isSignedByPayer).toBe(false);
  expect([nameOf(changed), nameOf(gone)]).toEqual([nameOf(then), nameOf(then)]);
});

test.each([
  ["a permit for a token by EIP-3009", "eip3009"],
  ["an authorization of EIP-3009 for a token by Permit2", "permit2"],
] as const)("%s is refused, even if it is signed in the domain of that token", async (_what, method) => {
  const its = token(method);
  const by = payer();
  const made =
    method === "eip3009"
      ? await signPermit2Payment(offerOf(its), { payer: by })
      : await signPayment(offerOf(its), { payer: by, name: "USDC", version: "2" });
  const signature = toHex(createSigner(by.privateKey).sign(digestOf(decodedOf(made.payload), its)));
  const payload = { ...made.payload, payload: { ...made.payload.payload, signature } };
  const take = () => inAcceptedToken(identifyPayment(decodedOf(payload), [its]));
  expect(take).toThrow(expect.objectContaining({ code: "payment.not_offered" }));
});
