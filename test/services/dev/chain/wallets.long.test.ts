import { encodeFunctionData, hashMessage, pad, parseErc6492Signature } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { tokenAbi } from "../../../../services/dev/chain/contracts/token.ts";
import { walletAbi } from "../../../../services/dev/chain/contracts/wallet.ts";
import { walletFactoryAbi } from "../../../../services/dev/chain/contracts/wallet-factory.ts";
import { newPayer } from "../../../support/devnet.ts";
import { randomNonce, signAuthorization } from "../../../support/sign-payment.ts";
import {
  newWallet,
  setAnswers,
  setOwner,
  type WalletPayer,
  wrapAsFirstOwner,
} from "../../../support/wallets.ts";
import { useFacilitator } from "./use-facilitator.ts";

const { devnet, paid } = useFacilitator();

const DIGEST = hashMessage("pay");
const YES = pad("0x1626ba7e", { dir: "right" });
const NO = pad("0xffffffff", { dir: "right" });

const signedBy = (privateKey: Hex) => privateKeyToAccount(privateKey).sign({ hash: DIGEST });

/** Calls the wallet and returns its raw answer. */
async function callWallet({ address: to }: WalletPayer, signature: Hex): Promise<Hex | undefined> {
  const args = [DIGEST, signature] as const;
  const data = encodeFunctionData({ abi: walletAbi, functionName: "isValidSignature", args });
  return (await devnet.chain.client.call({ to, data })).data;
}

test("a wallet says yes to a signature of its owner, plain or wrapped, and to no other", async () => {
  const wallet = await newWallet(devnet, { tokens: 0n });
  const own = await signedBy(wallet.privateKey);
  const foreign = await signedBy(randomNonce());
  expect(await callWallet(wallet, own)).toBe(YES);
  expect(await callWallet(wallet, wrapAsFirstOwner(own))).toBe(YES);
  expect(await callWallet(wallet, foreign)).toBe(NO);
  expect(await callWallet(wallet, wrapAsFirstOwner(foreign))).toBe(NO);
  expect(await callWallet(wallet, "0x")).toBe(NO);
});

test("a wallet that accepts only wrapped signatures says no to a plain one of its owner", async () => {
  const wallet = await newWallet(devnet, { tokens: 0n });
  await setAnswers(devnet, wallet, "TrulyIfWrapped");
  const own = await signedBy(wallet.privateKey);
  expect(await callWallet(wallet, own)).toBe(NO);
  expect(await callWallet(wallet, wrapAsFirstOwner(own))).toBe(YES);
});

test.each([
  ["Never", NO],
  ["Always", YES],
  ["Nonsense", expect.stringMatching(/^0x(?!1626ba7e)[0-9a-f]{64}$/)],
  ["DirtyYes", `${YES.slice(0, -1)}1`],
  ["ShortYes", "0x1626ba7e"],
  ["Nothing", undefined],
  ["LongYes", `${YES}${"00".repeat(2 ** 20 - 32)}`],
] as const)("a wallet that is set to answer %s does so for any signature", async (answers, said) => {
  const wallet = await newWallet(devnet, { tokens: 0n });
  await setAnswers(devnet, wallet, answers);
  expect(await callWallet(wallet, await signedBy(wallet.privateKey))).toEqual(said);
  expect(await callWallet(wallet, "0x1234")).toEqual(said);
});

test.each([
  ["Reverts", /cannot tell/],
  ["BurnsGas", /gas/i],
] as const)("a wallet that is set to answer %s does so when it is asked", async (answers, failure) => {
  const wallet = await newWallet(devnet, { tokens: 0n });
  await setAnswers(devnet, wallet, answers);
  await expect(callWallet(wallet, await signedBy(wallet.privateKey))).rejects.toThrow(failure);
});

test("after a change of owner a wallet refuses the former owner's signatures and orders", async () => {
  const wallet = await newWallet(devnet, { tokens: 0n });
  const next = await newPayer(devnet, 0n);
  await setOwner(devnet, wallet, next.address);
  expect(await callWallet(wallet, await signedBy(wallet.privateKey))).toBe(NO);
  expect(await callWallet(wallet, await signedBy(next.privateKey))).toBe(YES);
  await expect(setAnswers(devnet, wallet, "Always")).rejects.toThrow("reverted");
});

test("a wallet executes its owner's orders, and fails if they fail", async () => {
  const wallet = await newWallet(devnet, { tokens: 10n });
  const transfer = (value: bigint) =>
    encodeFunctionData({ abi: tokenAbi, functionName: "transfer", args: [devnet.seller, value] });
  await devnet.chain.sendAs(wallet, { to: devnet.token, data: transfer(7n) });
  expect(await paid(wallet)).toMatchObject([{ value: 7n }]);
  await expect(devnet.chain.sendAs(wallet, { to: devnet.token, data: transfer(7n) })).rejects.toThrow(
    "reverted",
  );
});

test("the factory deploys a wallet at the announced address, and the same call again returns the same wallet", async () => {
  const { chain, walletFactory: address } = devnet;
  const wallet = await newWallet(devnet, { deployed: false, tokens: 0n });
  expect(await chain.client.getCode({ address: wallet.address })).toBeUndefined();
  await chain.send(wallet.deployment);
  const read = { address: wallet.address, abi: walletAbi } as const;
  expect(await chain.client.readContract({ ...read, functionName: "owner" })).toBe(wallet.owner.address);
  await chain.send(wallet.deployment);
  const { data } = await chain.client.call({ to: address, data: wallet.deployment.data });
  expect(data).toBe(pad(wallet.address.toLowerCase() as Hex));
  const created = await chain.client.getContractEvents({
    ...{ address, abi: walletFactoryAbi, eventName: "WalletCreated", fromBlock: 0n },
    args: { wallet: wallet.address },
  });
  expect(created).toHaveLength(1);
});

test.each([
  ["bare", true],
  ["wrapped", true],
  ["bare", false],
  ["wrapped", false],
] as const)(
  "a wallet pays by an authorization with its %s signature, deployed before: %s",
  async (form, deployed) => {
    const { token, chainId, seller: to } = devnet;
    const payer = await newWallet(devnet, { form, deployed });
    const signed = await signAuthorization({ payer, to, value: 5n, token, chainId });
    expect(parseErc6492Signature(signed.signature).address === undefined).toBe(deployed);
    await devnet.chain.frontRun(signed);
    expect(await paid(payer)).toMatchObject([{ value: 5n, nonce: signed.authorization.nonce }]);
  },
);

test("a wallet cancels an authorization with its own signature", async () => {
  const { token, chainId, seller: to, chain } = devnet;
  const payer = await newWallet(devnet);
  const signed = await signAuthorization({ payer, to, value: 5n, token, chainId });
  await chain.cancelAuthorization(payer, signed.authorization.nonce);
  await expect(chain.frontRun(signed)).rejects.toThrow("reverted");
  expect(await paid(payer)).toEqual([]);
});
