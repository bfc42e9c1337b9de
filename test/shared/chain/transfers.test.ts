import { expect, test } from "vitest";
import type { TokenAuthorization } from "../../../shared/chain/payment-schemes.ts";
import { ASSET, payer, SELLER, useTokenChain } from "../../fixtures/token-chain.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf } = useChainReader(fixture);

const lower = (text: string) => text.toLowerCase();

test("every transfer to the seller is listed with its authorization", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization({ value: 7n })];
  const fromBlock = (await fixture.block()).number + 1n;
  const batch = await fixture.batch([5n, one, two, 6n]);
  await fixture.mine(3);
  const three = await fixture.authorization({ value: 9n });
  const single = await fixture.pay(three);
  await fixture.pay(await fixture.authorization({ to: payer.address }));
  const toBlock = (await fixture.block()).number;

  const transfers = [];
  const kind = { asset: ASSET, method: "eip3009", eventOrder: "used_first" } as const;
  const range = { ...kind, payTo: SELLER, fromBlock, toBlock };
  for await (const transfer of chainOf({}).transfersTo(range)) transfers.push(transfer);

  const signed = ({ nonce }: TokenAuthorization) => ({ authorizer: lower(payer.address), nonce });
  const common = { from: lower(payer.address), to: lower(SELLER) };
  expect(transfers).toMatchObject([
    { transaction: batch, value: 5n, ...common },
    { transaction: batch, value: one.value, authorization: signed(one), ...common },
    { transaction: batch, value: 7n, authorization: signed(two), ...common },
    { transaction: batch, value: 6n, ...common },
    { transaction: single, value: 9n, authorization: signed(three), block: toBlock - 1n, ...common },
  ]);
  for (const i of [0, 3]) expect(transfers[i]).not.toHaveProperty("authorization");
});
