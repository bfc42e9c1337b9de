import { encodeFunctionData, maxUint256, parseSignature } from "viem";
import { expect, test } from "vitest";
import { ADDRESSES, type Hex } from "../../../../services/dev/chain/chain.ts";
import { daiAbi } from "../../../../services/dev/chain/contracts/dai.ts";
import { usdtAbi } from "../../../../services/dev/chain/contracts/usdt.ts";
import { type Call, newPayer } from "../../../support/devnet.ts";
import { settleCall, signPermit2 } from "../../../support/permit2.ts";
import { refusalOf } from "../../../support/refusal.ts";
import { type Payer, signTyped } from "../../../support/sign-payment.ts";
import { useFacilitator } from "./use-facilitator.ts";

const { devnet } = useFacilitator();

type UsdtCall = Parameters<typeof encodeFunctionData<typeof usdtAbi>>[0];
const usdt = (call: Omit<UsdtCall, "abi">): Call => ({
  to: devnet.permit2Tokens.usdt,
  data: encodeFunctionData({ abi: usdtAbi, ...call } as UsdtCall),
});

async function holder(symbol: "usdt" | "dai", amount = 1000n): Promise<Payer> {
  const payer = await newPayer(devnet, 0n);
  await devnet.chain.mint(payer.address, amount, devnet.permit2Tokens[symbol]);
  return payer;
}

test("each payer holds a million USDT of 6 decimals and a million DAI of 18", async () => {
  const { chain, payers, permit2Tokens } = devnet;
  for (const [symbol, decimals] of [
    ["usdt", 6],
    ["dai", 18],
  ] as const) {
    const token = { address: permit2Tokens[symbol], abi: daiAbi } as const;
    expect(await chain.client.readContract({ ...token, functionName: "decimals" })).toBe(decimals);
    const held = await Promise.all(payers.map(({ address }) => chain.balanceOf(address, token.address)));
    expect(held).toEqual(payers.map(() => 1_000_000n * 10n ** BigInt(decimals)));
  }
});

test("USDT's transfers return nothing", async () => {
  const { client, permit2 } = devnet.chain;
  const payer = await holder("usdt");
  await permit2.approve(payer, devnet.permit2Tokens.usdt);
  const transfer = usdt({ functionName: "transfer", args: [devnet.seller, 7n] });
  expect(await client.call({ account: payer.address, ...transfer })).toEqual({ data: undefined });
  const from = usdt({ functionName: "transferFrom", args: [payer.address, devnet.seller, 7n] });
  expect(await client.call({ account: ADDRESSES.permit2, ...from })).toEqual({ data: undefined });
});

test("USDT changes an allowance only from zero or to zero", async () => {
  const { permit2 } = devnet.chain;
  const payer = await holder("usdt");
  const approve = (amount: bigint) => permit2.approve(payer, devnet.permit2Tokens.usdt, amount);
  await approve(5n);
  await expect(approve(6n)).rejects.toThrow("reverted");
  await approve(0n);
  await approve(6n);
});

test("USDT keeps its fee of each transfer once one is set, up to its maximum", async () => {
  const { chain, seller, chainId, permit2Tokens } = devnet;
  const payer = await holder("usdt");
  await chain.permit2.approve(payer, permit2Tokens.usdt);
  const pay = async (value: bigint) =>
    chain.permit2.settle(await signPermit2({ payer, to: seller, value, token: permit2Tokens.usdt, chainId }));
  await chain.send(usdt({ functionName: "setParams", args: [1000n, 20n] }));
  try {
    await pay(100n);
    await pay(500n);
  } finally {
    await chain.send(usdt({ functionName: "setParams", args: [0n, 0n] }));
  }
  await pay(100n);
  const charges = await chain.chargesOf(payer.address, permit2Tokens.usdt);
  expect(charges.map(({ value }) => value)).toEqual([90n, 480n, 100n]);
  expect(await chain.balanceOf(payer.address, permit2Tokens.usdt)).toBe(300n);
});

test("USDT refuses transfers of a blocked account or above the balance, without a reason", async () => {
  const { chain, seller: to, chainId, permit2Tokens } = devnet;
  const payer = await holder("usdt");
  await chain.permit2.approve(payer, permit2Tokens.usdt);
  const transfer = usdt({ functionName: "transfer", args: [to, 7n] });
  const settle = settleCall(await signPermit2({ payer, to, value: 7n, token: permit2Tokens.usdt, chainId }));
  const failed = { name: "Error", args: ["TRANSFER_FROM_FAILED"] };
  await chain.send(usdt({ functionName: "addBlackList", args: [payer.address] }));
  await expect(chain.sendFrom(payer, transfer)).rejects.toThrow("reverted");
  expect(await refusalOf(chain, settle, usdtAbi)).toEqual(failed);
  await chain.send(usdt({ functionName: "removeBlackList", args: [payer.address] }));
  expect(await refusalOf(chain, settle, usdtAbi)).toBeUndefined();
  const tooMuch = usdt({ functionName: "transfer", args: [to, 1001n] });
  await expect(chain.sendFrom(payer, tooMuch)).rejects.toThrow("reverted");
  expect(await refusalOf(chain, tooMuch, usdtAbi)).toEqual({ name: "", args: [] });
});

const dai = () => ({ address: devnet.permit2Tokens.dai, abi: daiAbi }) as const;

async function daiTransfer(from: Hex, value: bigint) {
  const data = encodeFunctionData({
    abi: daiAbi,
    functionName: "transferFrom",
    args: [from, devnet.seller, value],
  });
  return refusalOf(devnet.chain, { to: devnet.permit2Tokens.dai, data }, daiAbi);
}

test("DAI's reverts name what is missing, and an unlimited allowance is not used up", async () => {
  const { chain, permit2Tokens, seller, chainId } = devnet;
  const payer = await holder("dai");
  expect(await daiTransfer(payer.address, 7n)).toEqual({
    name: "Error",
    args: ["Dai/insufficient-allowance"],
  });
  expect(await daiTransfer(payer.address, 1001n)).toEqual({
    name: "Error",
    args: ["Dai/insufficient-balance"],
  });
  const allowance = () =>
    chain.client.readContract({
      ...dai(),
      functionName: "allowance",
      args: [payer.address, ADDRESSES.permit2],
    });
  const pay = async () =>
    chain.permit2.settle(
      await signPermit2({ payer, to: seller, value: 7n, token: permit2Tokens.dai, chainId }),
    );
  await chain.permit2.approve(payer, permit2Tokens.dai, 10n);
  await pay();
  expect(await allowance()).toBe(3n);
  await chain.permit2.approve(payer, permit2Tokens.dai);
  await pay();
  expect(await allowance()).toBe(maxUint256);
});

test("DAI's own permit gives an unlimited allowance to the signed spender, once", async () => {
  const { chain, chainId } = devnet;
  const payer = await holder("dai");
  const message = { holder: payer.address, spender: ADDRESSES.permit2, nonce: 0n, expiry: 0n, allowed: true };
  const signature = await signTyped(payer, {
    domain: { name: "Dai Stablecoin", version: "1", chainId, verifyingContract: dai().address },
    types: {
      Permit: [
        { name: "holder", type: "address" },
        { name: "spender", type: "address" },
        { name: "nonce", type: "uint256" },
        { name: "expiry", type: "uint256" },
        { name: "allowed", type: "bool" },
      ],
    },
    primaryType: "Permit",
    message,
  });
  const { r, s, yParity } = parseSignature(signature);
  const permit = (allowed: boolean): Call => {
    const args = [payer.address, ADDRESSES.permit2, 0n, 0n, allowed, 27 + yParity, r, s] as const;
    return { to: dai().address, data: encodeFunctionData({ abi: daiAbi, functionName: "permit", args }) };
  };
  const said = async (allowed: boolean) => (await refusalOf(chain, permit(allowed), daiAbi))?.args;
  expect(await said(false)).toEqual(["Dai/invalid-permit"]);
  await chain.send(permit(true));
  const args = [payer.address, ADDRESSES.permit2] as const;
  expect(await chain.client.readContract({ ...dai(), functionName: "allowance", args })).toBe(maxUint256);
  expect(await said(true)).toEqual(["Dai/invalid-nonce"]);
});
