import { startNodeBefore } from "../../support/node-before.ts";

/** Starts a node that forwards requests to another one and counts the contract calls. While `away`, it breaks every connection. */
export async function countingNode(rpcUrl: string) {
  let calls = 0;
  let isAway = false;
  const { address, close } = await startNodeBefore(rpcUrl, ({ method }, res) => {
    if (isAway) res.destroy();
    else if (method === "eth_call") calls += 1;
    return isAway;
  });
  return {
    url: `http://${address}`,
    calls: () => calls,
    close,
    set isAway(away: boolean) {
      isAway = away;
    },
  };
}
