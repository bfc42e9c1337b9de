import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { connectChain, devnetAccounts } from "../../../../services/dev/chain/chain.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useFacilitator } from "./use-facilitator.ts";

// Its chain makes no blocks but those of transactions.
const { devnet } = useFacilitator();
const ends = useEnds();

test("a receipt is waited for that comes later than its block", async () => {
  let early = 3;
  const node = await listen(async (req, res) => {
    const body = await text(req);
    const isEarly = body.includes("eth_getTransactionReceipt") && early-- > 0;
    const headers = { "content-type": "application/json" };
    const answer = await fetch(devnet.rpcUrl, { method: "POST", headers, body });
    const found = (await answer.json()) as object;
    res.writeHead(200, headers).end(JSON.stringify(isEarly ? { ...found, result: null } : found));
  }, "127.0.0.1:0");
  ends.defer(() => node.close(0));
  const chain = connectChain(node.url, devnetAccounts().thirdParty);
  const hash = await chain.sendTransaction({ to: devnet.seller, value: 1n });
  expect(await chain.waitForTransactionReceipt({ hash, timeout: 5000 })).toMatchObject({ status: "success" });
});
