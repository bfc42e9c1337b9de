import { type Chain, createChain } from "../../../shared/chain/chain.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import type { UsedAnvil } from "../../fixtures/anvil.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { type NodeBefore, startNodeBefore } from "../../support/node-before.ts";
import { recordingLog } from "../../support/recording-log.ts";

type Given = {
  confirmations?: number;
  voidDepth?: number;
  rpcUrl?: string;
  chainId?: number;
  timeoutMs?: number;
};

/** What reads a chain, and nodes in front of its own; both end after the test. */
export function useChainReader(on: UsedAnvil) {
  const ends = useEnds();
  return {
    /** Its clock is a century ahead: no evidence may depend on it. */
    chainOf(
      {
        confirmations = 1,
        voidDepth = 512,
        rpcUrl = on.rpcUrl,
        chainId = on.chainId,
        timeoutMs = 5000,
      }: Given,
      log = recordingLog(),
      clock = () => Date.now() + 3_155_760_000_000,
    ): Chain {
      const depths = { confirmations, voidDepth };
      const its = createChain({
        ...{ rpcUrl: new Secret(rpcUrl), chainId, ...depths, timeoutMs, lookAgainMs: 100, clock, log },
      });
      ends.defer(() => its.close());
      return its;
    },

    /** A node in front of the chain's, which answers some requests by itself. */
    async nodeThat(answer: Parameters<typeof startNodeBefore>[1]): Promise<NodeBefore> {
      const node = await startNodeBefore(on.rpcUrl, answer);
      ends.defer(() => node.close());
      return node;
    },
  };
}
