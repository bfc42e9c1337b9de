import fc from "fast-check";
import { hashTypedData, recoverTypedDataAddress } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { personalMessageDigest, recoverAddress } from "../../../shared/ethereum/signatures.ts";
import {
  type Authorization,
  authorizationDigest,
  domainSeparator,
} from "../../../shared/ethereum/typed-data.ts";
import { TRANSFER_TYPES } from "../../support/sign-payment.ts";

const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const account = privateKeyToAccount(KEY);
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const domain = {
  name: "USDC",
  version: "2",
  chainId: 84532,
  verifyingContract: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
} as const;
const types = TRANSFER_TYPES;
const primaryType = "TransferWithAuthorization";

const hex = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((array): `0x${string}` => `0x${Buffer.from(array).toString("hex")}`);
const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n });
const authorizations: fc.Arbitrary<Authorization> = fc.record({
  from: hex(20),
  to: hex(20),
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: hex(32),
});

test("the digest of an authorization is viem's, for every authorization and domain", () => {
  fc.assert(
    fc.property(
      authorizations,
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 1 }),
      fc.integer({ min: 1 }),
      (message, name, version, chainId) => {
        const its = { ...domain, name, version, chainId };
        const ours = Buffer.from(authorizationDigest(domainSeparator(its), message)).toString("hex");
        expect(`0x${ours}`).toBe(hashTypedData({ domain: its, types, primaryType, message }));
      },
    ),
  );
});

test("the signer of a typed message is recovered, as viem does, and of a changed one it is not", async () => {
  const message = { from: account.address, to: account.address, value: 7n, validAfter: 0n, validBefore: 9n };
  const signed = { ...message, nonce: `0x${"ab".repeat(32)}` } as const;
  const signature = await account.signTypedData({ domain, types, primaryType, message: signed });
  const recovered = (of: Authorization) =>
    recoverAddress(authorizationDigest(domainSeparator(domain), of), signature);
  expect(recovered(signed)).toBe(account.address.toLowerCase());
  expect(recovered(signed)).toBe(
    (await recoverTypedDataAddress({ domain, types, primaryType, message: signed, signature })).toLowerCase(),
  );
  expect(recovered({ ...signed, value: 8n })).not.toBe(account.address.toLowerCase());
});

test("only one form of a signature is taken: 65 bytes, v 27 or 28, low s", async () => {
  const digest = personalMessageDigest("hello");
  const signature = await account.signMessage({ message: "hello" });
  expect(recoverAddress(digest, signature)).toBe(account.address.toLowerCase());
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
  const highS = (ORDER - BigInt(`0x${s}`)).toString(16).padStart(64, "0");
  const otherV = v === "1b" ? "1c" : "1b";
  for (const bad of [
    `0x${r}${highS}${otherV}`,
    `0x${r}${s}${v === "1b" ? "00" : "01"}`,
    `0x${r}${s}`,
    `0x${r}${s}${v}00`,
    `0x${"00".repeat(64)}${v}`,
    `0x${"ff".repeat(32)}${s}${v}`,
    signature.slice(2),
    "",
  ])
    expect(recoverAddress(digest, bad), bad).toBeUndefined();
});
