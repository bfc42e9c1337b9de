import { expect, test } from "vitest";
import { connectChain, devnetAccounts } from "../../../../services/dev/chain/chain.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { answerWith, startNodeBefore } from "../../../support/node-before.ts";
import { useFacilitator } from "./use-facilitator.ts";

// This chain makes blocks only for transactions.
const { devnet } = useFacilitator();
const ends = useEnds();

test("the chain client waits for a receipt that appears later than its block", async () => {
  let early = 3;
  const node = await startNodeBefore(devnet.rpcUrl, (rpc, res) => {
    if (rpc.method !== "eth_getTransactionReceipt" || early-- <= 0) return false;
    return answerWith(null, rpc, res);
  });
  ends.defer(node.close);
  const chain = connectChain(`http://${node.address}`, devnetAccounts().thirdParty);
  const hash = await chain.sendTransaction({ to: devnet.seller, value: 1n });
  expect(await chain.waitForTransactionReceipt({ hash, timeout: 5000 })).toMatchObject({ status: "success" });
});
