import fc from "fast-check";
import { hashTypedData, recoverTypedDataAddress } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { describe, expect, test } from "vitest";
import { nativeCurve, portableCurve } from "../../../shared/chain/secp256k1.ts";
import { personalMessageDigest, recoverAddress } from "../../../shared/chain/signatures.ts";
import {
  type Authorization,
  authorizationDigest,
  domainSeparator,
} from "../../../shared/chain/typed-data.ts";
import { LONG_RUN } from "../../support/long-run.ts";
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

test("the signer of a typed message is recovered as by viem, and a changed message gives another signer", async () => {
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

test("only one form of a signature is accepted: 65 bytes, v 27 or 28, low s", async () => {
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

describe("libsecp256k1 and the curve in JavaScript", () => {
  const native = nativeCurve();
  if (native === undefined) throw new Error("these tests need the native module of secp256k1");
  const curves = [native, portableCurve] as const;
  const scalar = fc.oneof(
    { weight: 5, arbitrary: fc.bigInt({ min: 1n, max: ORDER - 1n }) },
    fc.constantFrom(0n, 1n, ORDER / 2n, ORDER / 2n + 1n, ORDER - 1n, ORDER, ORDER + 1n, 2n ** 256n - 1n),
  );
  const key = fc.bigInt({ min: 1n, max: ORDER - 1n }).map(bytes32);
  const v = fc.constantFrom(0, 1, 26, 27, 28, 29, 30, 255);

  test("give the same verdict and the same signer for any r, s, v and digest", () => {
    const verdicts = new Set<boolean>();
    fc.assert(
      fc.property(scalar, scalar, v, scalar, (r, s, itsV, digest) => {
        const signature = `0x${Buffer.concat([bytes32(r), bytes32(s), Buffer.of(itsV)]).toString("hex")}`;
        const [native, portable] = curves.map((curve) => recoverAddress(bytes32(digest), signature, curve));
        expect(portable).toBe(native);
        verdicts.add(native !== undefined);
      }),
      { numRuns: LONG_RUN ? 1000 : 200 },
    );
    expect(verdicts.size).toBe(2);
  });

  test("make the same signature, recover its signer, and refuse it with a high s or another v", () => {
    fc.assert(
      fc.property(key, fc.bigInt({ min: 0n, max: ORDER - 1n }).map(bytes32), (its, digest) => {
        const [native, portable] = curves.map((curve) => curve.sign(digest, its));
        expect(Buffer.from(portable?.signature ?? [])).toEqual(Buffer.from(native?.signature ?? []));
        expect(portable?.recoveryId).toBe(native?.recoveryId);
        const { signature, recoveryId } = curves[0].sign(digest, its);
        const [r, s] = [signature.subarray(0, 32), signature.subarray(32)];
        const highS = bytes32(ORDER - BigInt(`0x${Buffer.from(s).toString("hex")}`));
        for (const curve of curves) {
          const recovered = (s: Uint8Array, v: number) =>
            recoverAddress(digest, `0x${Buffer.concat([r, s, Buffer.of(v)]).toString("hex")}`, curve);
          const signer = recovered(s, 27 + recoveryId);
          expect(signer).toBe(privateKeyToAccount(`0x${its.toString("hex")}`).address.toLowerCase());
          expect(recovered(s, 28 - recoveryId)).not.toBe(signer);
          expect(recovered(highS, 28 - recoveryId)).toBeUndefined();
          expect(recovered(s, recoveryId)).toBeUndefined();
        }
      }),
      { numRuns: LONG_RUN ? 50 : 5 },
    );
  });

  test("accept the same private keys", () => {
    fc.assert(
      fc.property(scalar, (its) => {
        const [native, portable] = curves.map((curve) => curve.isPrivateKey(bytes32(its)));
        expect(portable).toBe(native);
        expect(native).toBe(its > 0n && its < ORDER);
      }),
    );
  });
});

function bytes32(number: bigint): Buffer {
  return Buffer.from(number.toString(16).padStart(64, "0"), "hex");
}
