import { devToken } from "../../../shared/dev/config.ts";
import type { Payments } from "../../fixtures/payments.ts";
import { asUser } from "../../fixtures/redis.ts";
import { x402Table } from "../../fixtures/x402.ts";
import { type HoldingNode, startHoldingNode } from "../../support/node-before.ts";

/** No contract is there. */
const EURC = `0x${"ec".repeat(20)}`;

/** Beside USDC another token is accepted, whose transfers the node of both searches for until it is let go on. */
export async function acceptSlowToken({ devnet, redis, postern }: Payments): Promise<HoldingNode> {
  const isOfIt = (rpc: object) => JSON.stringify(rpc).toLowerCase().includes(EURC);
  const node = await startHoldingNode(devnet.rpcUrl, (rpc) => rpc.method === "eth_getLogs" && isOfIt(rpc));
  const usdc = { ...devToken(devnet), rpc_url: node.url };
  const accepted_tokens = [usdc, { ...usdc, asset: EURC, symbol: "EURC" }];
  postern.configure({
    postern: { redis: { url: asUser(redis.url, "operator") } },
    x402: x402Table({ devnet, x402: { accepted_tokens } }),
  });
  return node;
}
