import type { Logger } from "../platform/log/logger.ts";
import { toIso } from "../platform/time/iso.ts";
import { defineScript } from "../redis/define-script.ts";
import { askAll } from "../redis/merge.ts";
import { logOf, type Partition, type Partitions } from "../redis/partition.ts";
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

type Deps = { partitions: Partitions; tokens: TokenSource; log: Logger };

/**
 * Runs an audit of payments, and allows sales again if no further audit is needed. After `postern redis adopt`, Redis
 * may lack the payments since a stored time, so no job is sold. Audits must first cover each network from that time to
 * the newest block. Each partition stores this time until it is covered, and gateways sell nothing while any partition
 * has it. Partition 0 is the last one to delete it.
 */
export function createAuditing({ partitions, tokens, log }: Deps) {
  const each = partitions.map(createUnaudited);

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
    const before = await askAll(each, ({ read }) => read());
    const result = await audit();
    if (order.to_block !== undefined) return;
    const audited = tokens.chains().filter((token) => tokens.chainOf(token) !== undefined);
    const networks = [...new Set(audited.map((token): string => token.network))];
    for (const [index, found] of [...before.entries()].reverse()) {
      if (found === undefined) continue;
      const { partition, note } = each.at(index);
      for (const network of await coveredNetworks(result, Number(found.unaudited))) {
        if (!(await note({ ...found, network, networks }))) continue;
        logOf(partition, log).info("payments.sales_opened", {
          unauditedSince: toIso(Number(found.unaudited)),
        });
      }
    }
  };
}

/** Reads the time since which a partition's payments are unaudited. Records which networks an audit has covered. */
function createUnaudited(partition: Partition) {
  const { redis, keys } = partition;
  const noteAudited = NOTE_AUDITED.on(redis);
  return {
    partition,
    async read() {
      const [unaudited, adopted] = await redis.hmget(keys.deployment, "unaudited", "adopted");
      if (typeof unaudited !== "string" || typeof adopted !== "string") return undefined;
      return { unaudited, adopted };
    },
    note: (words: { unaudited: string; adopted: string; network: string; networks: string[] }) =>
      noteAudited({ deployment: keys.deployment }, words),
  };
}
