import fc from "fast-check";
import { parseEther } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { Hex } from "../../../shared/chain/encoding.ts";
import { parseRawTransaction } from "../../../shared/chain/raw-transaction.ts";

const account = privateKeyToAccount(generatePrivateKey());
const to = `0x${"ab".repeat(20)}` as const;

const amount = fc.bigInt({ min: 0n, max: parseEther("1000") });
const bytes = fc.uint8Array({ maxLength: 400 }).map((data): Hex => `0x${Buffer.from(data).toString("hex")}`);
const fields = fc.record({
  chainId: fc.integer({ min: 1, max: 2 ** 48 }),
  nonce: fc.integer({ min: 0, max: 2 ** 40 }),
  tip: amount,
  gas: amount,
  value: amount,
  data: bytes,
  keys: fc.integer({ min: 0, max: 3 }),
});

test("a signed transaction by viem is parsed with all its fields and its signer's address", async () => {
  await fc.assert(
    fc.asyncProperty(fields, async ({ tip, keys, ...given }) => {
      const fees = { maxPriorityFeePerGas: tip, maxFeePerGas: tip + 7n };
      const storageKeys = Array.from({ length: keys }, (_, i) => `0x${"0".repeat(63)}${i}` as const);
      const accessList = keys > 0 ? [{ address: to, storageKeys }] : [];
      const raw = await account.signTransaction({ ...given, ...fees, to, accessList, type: "eip1559" });
      const signer = account.address.toLowerCase();
      const numbers = { chainId: BigInt(given.chainId), nonce: BigInt(given.nonce) };
      expect(parseRawTransaction(raw)).toEqual({
        ...{ ...given, ...numbers, ...fees, to, signer, hasAccessList: keys > 0 },
      });
    }),
    { numRuns: 60 },
  );
});

test("a signed transaction with any changed bit cannot be parsed, or has another signer or field", async () => {
  const given = { chainId: 1, nonce: 3, gas: 70_000n, maxFeePerGas: 9n, maxPriorityFeePerGas: 2n } as const;
  const raw = await account.signTransaction({ ...given, to, data: "0x1234", type: "eip1559" });
  const original = Buffer.from(raw.slice(2), "hex");
  for (let at = 0; at < original.length; at++) {
    const changed = Buffer.from(original);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(parseRawTransaction(`0x${changed.toString("hex")}`)).not.toEqual(parseRawTransaction(raw));
    expect(parseRawTransaction(`0x${original.toString("hex", 0, at)}`)).toBeUndefined();
  }
  expect(parseRawTransaction(`${raw}00`)).toBeUndefined();
});

test("the parser throws for no input", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 512 }), (random) => {
      const hex = Buffer.from(random).toString("hex");
      for (const start of ["", "02", "02f8", "02f9", "02ff", "02c0"]) parseRawTransaction(`0x${start}${hex}`);
    }),
  );
});
