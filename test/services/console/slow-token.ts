import { devToken } from "../../../shared/dev/config.ts";
import type { Payments } from "../../fixtures/payments.ts";
import { asUser } from "../../fixtures/redis.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { type HoldingNode, startHoldingNode } from "../../support/node-before.ts";

/** Address of a token without a contract. */
const EURC = `0x${"ec".repeat(20)}`;

/** Accepts a second token besides USDC. The node holds searches for its transfers until the test releases them. */
export async function acceptSlowToken({ devnet, redis, postern }: Payments): Promise<HoldingNode> {
  const isForToken = (rpc: object) => JSON.stringify(rpc).toLowerCase().includes(EURC);
  const node = await startHoldingNode(
    devnet.rpcUrl,
    (rpc) => rpc.method === "eth_getLogs" && isForToken(rpc),
  );
  const usdc = { ...devToken(devnet), rpc_url: node.url };
  const accepted_tokens = [usdc, { ...usdc, asset: EURC, symbol: "EURC" }];
  postern.configure({
    postern: { redis: { url: asUser(redis.url, "operator") } },
    x402: x402Table({ devnet, x402: { accepted_tokens } }),
  });
  return node;
}
