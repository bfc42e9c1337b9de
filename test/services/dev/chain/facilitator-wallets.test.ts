import { expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { walletFactoryCode } from "../../../../services/dev/chain/contracts/wallet-factory.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import type { Payer } from "../../../support/sign-payment.ts";
import { asErc6492, newWallet, setAnswers, wrapAsFirstOwner } from "../../../support/wallets.ts";
import { PRICE, useFacilitator } from "./use-facilitator.ts";

const { devnet, verify, settle, paid, signedByClient } = useFacilitator();

const codeOf = ({ address }: Payer) => devnet.chain.client.getCode({ address });

const SIGNATURES = [
  ["bare", true],
  ["wrapped", false],
  ["wrapped", true],
  ["bare", false],
] as const;

test.each(sample(SIGNATURES, 2))(
  "the facilitator settles a payment of the official client with a wallet's %s signature, deployed before: %s",
  async (form, deployed) => {
    const payer = await newWallet(devnet, { form, deployed });
    const payload = await signedByClient(payer);
    expect(await verify(payload)).toEqual({ isValid: true, payer: payer.address });
    expect((await codeOf(payer)) !== undefined).toBe(deployed);
    const settled = await settle(payload);
    expect(settled).toMatchObject({ success: true, payer: payer.address });
    expect(await paid(payer)).toMatchObject([{ value: PRICE, transaction: settled.transaction }]);
    expect(await codeOf(payer)).toBeDefined();
  },
);

test("the facilitator refuses a payment of a wallet that says no, or whose signature is by another key", async () => {
  const wallet = await newWallet(devnet);
  const other = await newWallet(devnet);
  const foreign = await signedByClient({ ...wallet, privateKey: other.privateKey });
  const reason = "invalid_exact_evm_signature";
  expect(await verify(foreign)).toMatchObject({ isValid: false, invalidReason: reason });
  const payload = await signedByClient(wallet);
  expect(await verify(payload)).toMatchObject({ isValid: true });
  await setAnswers(devnet, wallet, "Never");
  expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: reason });
  expect(await settle(payload)).toMatchObject({ success: false, errorReason: reason });
  expect(await paid(wallet)).toEqual([]);
});

onlyInLongRun(() => {
  test("the facilitator settles the ERC-6492 signature of a wallet that was deployed meanwhile", async () => {
    const payer = await newWallet(devnet, { deployed: false });
    const payload = await signedByClient(payer);
    await devnet.chain.send(payer.deployment);
    expect(await verify(payload)).toMatchObject({ isValid: true });
    expect(await settle(payload)).toMatchObject({ success: true });
    expect(await paid(payer)).toHaveLength(1);
  });

  test("the facilitator does not deploy a wallet of another factory than the devnet's", async () => {
    const factory: Hex = "0x000000000000000000000000000000000fAC7048";
    await devnet.chain.client.setCode({ address: factory, bytecode: walletFactoryCode });
    const payer = await newWallet(devnet, { deployed: false, factory });
    const payload = await signedByClient(payer);
    const refused = "eip6492_factory_not_allowed";
    expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: refused });
    expect(await settle(payload)).toMatchObject({ success: false, errorReason: refused });
    expect(await codeOf(payer)).toBeUndefined();
    expect(await paid(payer)).toEqual([]);
  });

  test("the facilitator refuses an ERC-6492 signature of another key for a wallet that is not deployed yet", async () => {
    const wallet = await newWallet(devnet, { deployed: false });
    const other = await newWallet(devnet, { deployed: false });
    const wrap = async (signature: Hex) => asErc6492(wallet.deployment, wrapAsFirstOwner(signature));
    const payload = await signedByClient({ address: wallet.address, privateKey: other.privateKey, wrap });
    expect(await verify(payload)).toMatchObject({ isValid: false });
    expect(await settle(payload)).toMatchObject({ success: false });
    expect(await paid(wallet)).toEqual([]);
  });

  test("a delayed transaction of a wallet deploys the wallet", async () => {
    const payer = await newWallet(devnet, { deployed: false });
    const payload = await signedByClient(payer);
    await devnet.control.fault({ on: "settle", kind: "pending", landsAfterMs: 100, times: 1 });
    const first = await settle(payload);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending" });
    expect(await settle(payload)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await paid(payer)).toMatchObject([{ transaction: first.transaction }]);
  });
});
