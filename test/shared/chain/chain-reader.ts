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

type AfterUrl<Start extends (rpcUrl: string, ...rest: never[]) => unknown> =
  Parameters<Start> extends [string, ...infer Rest] ? Rest : never;

/** Creates readers of a chain, and nodes in front of the chain's own node. All end after the test. */
export function useChainReader(on: UsedAnvil) {
  const ends = useEnds();
  return {
    /** Creates a reader whose clock is a century ahead, because no evidence may depend on this clock. */
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
        ...{ rpcUrl: new Secret(rpcUrl), chainId, ...depths, timeoutMs, recheckMs: 100, clock, log },
      });
      ends.defer(() => its.close());
      return its;
    },

    /** Starts a node in front of the chain's, which answers some requests by itself. */
    async nodeThat(...answers: AfterUrl<typeof startNodeBefore>): Promise<NodeBefore> {
      const node = await startNodeBefore(on.rpcUrl, ...answers);
      ends.defer(() => node.close());
      return node;
    },
  };
}
