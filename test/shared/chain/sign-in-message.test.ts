import { createSIWxMessage } from "@x402/extensions/sign-in-with-x";
import { expect, test } from "vitest";
import { toSignInText } from "../../../shared/chain/sign-in-message.ts";

const ADDRESS = "0xFCAd0B19bB29D4674531d6f115237E16AfCE377c";
const message = {
  domain: "pay.test:8402",
  address: ADDRESS,
  statement: "I ask for the result of a call.",
  uri: "https://pay.test:8402/shop/x402/calls/c_1/result",
  chainId: 8453,
  nonce: "0123456789abcdef",
  issuedAt: "2026-01-02T03:04:05.678Z",
  expirationTime: undefined,
  notBefore: undefined,
} as const;

test.each([
  ["no times but its own", {}],
  ["an expiration", { expirationTime: "2026-01-02T03:09:05.678Z" }],
  ["a beginning", { notBefore: "2026-01-02T03:04:05Z" }],
  ["both", { expirationTime: "2026-01-02T03:09:05.678Z", notBefore: "2026-01-02T03:04:05+00:00" }],
  ["an address in lower case", { address: ADDRESS.toLowerCase() as `0x${string}` }],
])("the text of a sign-in with %s is that of the official client", (_what, changes) => {
  const said = { ...message, ...changes };
  const { address, chainId, expirationTime, notBefore, ...rest } = said;
  const info = {
    ...{ ...rest, version: "1", chainId: `eip155:${chainId}`, type: "eip191" as const },
    ...(expirationTime !== undefined && { expirationTime }),
    ...(notBefore !== undefined && { notBefore }),
  };
  expect(toSignInText(said)).toBe(createSIWxMessage(info, address));
});
