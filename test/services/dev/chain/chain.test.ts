import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { registryAbi } from "../../../../services/dev/chain/contracts/caller-registry.ts";
import { multicall3Code } from "../../../../services/dev/chain/contracts/multicall3.ts";
import { PRICE, useFacilitator } from "./use-facilitator.ts";

const { devnet, settle, paid, payment } = useFacilitator();

test("on the devnet's chain payers hold tokens, the seller none, and final blocks are two behind the head", async () => {
  const { chain, payers, seller } = devnet;
  expect(await Promise.all(payers.map(({ address }) => chain.balanceOf(address)))).toEqual(
    payers.map(() => 1_000_000_000_000n),
  );
  expect(await chain.balanceOf(privateKeyToAccount(payers[0]!.privateKey).address)).toBeGreaterThan(0n);
  expect(seller).toMatch(/^0x/);
  await chain.mine(3);
  const head = await chain.client.getBlock();
  const final = await chain.client.getBlock({ blockTag: "finalized" });
  expect(head.number - final.number).toBe(2n);
  const code = await chain.client.getCode({ address: "0xcA11bde05977b3631167028862bE2a173976CA11" });
  expect(code).toBe(multicall3Code);
});

test("the devnet's token logs AuthorizationUsed directly before Transfer, and accepts both forms of signature", async () => {
  const { payload, payer, signed } = await payment();
  expect((await settle(payload)).success).toBe(true);
  const [transfer, ...others] = await paid(payer);
  expect(others).toEqual([]);
  expect(transfer).toMatchObject({ value: PRICE, nonce: signed.authorization.nonce });
  const other = await payment();
  await devnet.chain.frontRun(other.signed);
  expect(await paid(other.payer)).toMatchObject([{ nonce: other.signed.authorization.nonce }]);
});

test("the devnet's registry answers who is permitted, and reverts or burns gas on command", async () => {
  const { chain, callerRegistry, seller } = devnet;
  const ask = (serviceId: bigint) =>
    chain.client.readContract({
      address: callerRegistry,
      abi: registryAbi,
      functionName: "isPermittedCaller",
      args: [serviceId, seller],
    });
  expect(await ask(7n)).toBe(false);
  await chain.permitCaller(7n, seller);
  expect(await ask(7n)).toBe(true);
  expect(await ask(8n)).toBe(false);
  await expect(ask(2n ** 64n - 1n)).rejects.toThrow("cannot tell");
  await expect(ask(2n ** 64n - 2n)).rejects.toThrow(/gas/i);
});
