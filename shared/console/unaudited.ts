import type { Logger } from "../platform/log/logger.ts";
import { toIso } from "../platform/time/iso.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag } from "../redis/reply.ts";
import noteAuditedLua from "./note-audited.lua";
import type { TokenSource } from "./tokens.ts";
import type { MatchOrder, TransferMatches } from "./transfer-matches.ts";

const NOTE_AUDITED = defineScript({
  source: noteAuditedLua,
  keys: "deployment",
  args: "unaudited, adopted, network, ...networks",
  proof: "needed",
  reply: flag,
});

type Deps = { partition: Partition; tokens: TokenSource; log: Logger };

/**
 * Runs an audit, and has jobs sold again if payments were unaudited before it, and it covers their time on each network. Its range must end
 * at the newest block.
 */
export function createAuditing({ partition: { redis, keys }, tokens, log }: Deps) {
  const noteAudited = NOTE_AUDITED.on(redis);

  async function coveredNetworks({ tokens: found }: TransferMatches, since: number): Promise<string[]> {
    const covered = new Set<string>();
    for (const { network, asset, from_block: from } of found) {
      const token = tokens.chains().find((each) => each.network === network && each.asset === asset);
      const chain = token && tokens.chainOf(token);
      if (chain === undefined || covered.has(network)) continue;
      if (from === "0" || (await chain.timeOf(BigInt(from))) <= since) covered.add(network);
    }
    return [...covered];
  }

  return async function auditing(order: MatchOrder, audit: () => Promise<TransferMatches>): Promise<void> {
    const [unaudited, adopted] = await redis.hmget(keys.deployment, "unaudited", "adopted");
    const result = await audit();
    if (typeof unaudited !== "string" || typeof adopted !== "string" || order.to_block !== undefined) return;
    const audited = tokens.chains().filter((token) => tokens.chainOf(token) !== undefined);
    const networks = [...new Set(audited.map((token): string => token.network))];
    for (const network of await coveredNetworks(result, Number(unaudited))) {
      const isOpen = await noteAudited(
        { deployment: keys.deployment },
        { unaudited, adopted, network, networks },
      );
      if (isOpen) log.info("payments.sales_opened", { unauditedSince: toIso(Number(unaudited)) });
    }
  };
}
