import { startNodeBefore } from "../../support/node-before.ts";

/** A node that is another one, and counts what contracts are asked of it. While it is away, it breaks every connection. */
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
