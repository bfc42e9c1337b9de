import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import {
  addressText,
  ask,
  createAskServer,
  findPrimary,
  type PrimaryLookup,
  parseAddress,
} from "./connector.ts";
import { parseInfo, requireDurableReplica } from "./server-state.ts";

/** Replication state of a primary. */
export type Replication = {
  /** Replication id of the primary. It changes whenever another server becomes the primary. */
  readonly id: string;
  /** Addresses of the replicas that are connected to the primary. */
  readonly attached: readonly string[];
};

/** Replication state of a primary, with what other servers and the replicas themselves say about its replicas. */
export type Replicas = Replication & {
  /** Addresses of the replicas that can take over, including those that are down. */
  readonly promotable: readonly string[];
  /** Number of full syncs that the primary has begun. */
  readonly fullSyncs: string;
  /** Addresses of the attached replicas that are rewriting their append-only file. */
  readonly rewriting: readonly string[];
};

/**
 * Finds the primary and all its replicas. Throws the reason if they are not known. Throws `start.redis_not_durable` if the
 * settings of a replica would lose writes that it has confirmed.
 */
export async function findReplicas(lookup: PrimaryLookup, ended: AbortSignal): Promise<Replicas> {
  const primary = await findPrimary(lookup, ended);
  const at = createAskServer(lookup, ended);
  const [{ fullSyncs, ...replication }, promotable] = await Promise.all([
    at(primary, async (redis) => ({
      ...(await readReplication(redis)),
      fullSyncs: parseInfo(await redis.info("stats"))["sync_full"] ?? "",
    })),
    lookup.finder.kind === "sentinels"
      ? listedBySentinels(lookup.finder, ended)
      : at(primary, listedByCluster),
  ]);
  const found = await Promise.all(
    replication.attached.map(async (address) => {
      const { isRewriting } = await at(parseAddress(address), requireDurableReplica).catch(
        (error: unknown) => {
          throw ofReplica(address, error);
        },
      );
      return isRewriting ? [address] : [];
    }),
  );
  return { ...replication, promotable, fullSyncs, rewriting: found.flat() };
}

function ofReplica(address: string, error: unknown): Error {
  const reason = `of the replica ${address}: ${messageOf(error)}`;
  return error instanceof AppError ? new AppError(error.code, { reason, cause: error }) : new Error(reason);
}

/** Reads the replication state of a primary. Throws if the server is a replica. */
export async function readReplication(redis: Redis): Promise<Replication> {
  const replication = toReplication(await redis.info("replication"));
  if (replication === undefined) throw new Error("the server that was named as the primary is a replica");
  return replication;
}

/** Parses the reply to INFO of a primary. Returns undefined if the reply is that of a replica. */
export function toReplication(text: string): Replication | undefined {
  const info = parseInfo(text);
  if (info["role"] !== "master") return undefined;
  const attached = Object.entries(info).flatMap(([name, value]) => {
    const { host = "", port } =
      (/^slave\d+$/.test(name) && /^ip=(?<host>[^,]*),port=(?<port>\d+),/.exec(value)?.groups) || {};
    return port === undefined ? [] : [addressText({ host, port: Number(port) })];
  });
  return { id: info["master_replid"] ?? "", attached };
}

type Sentinels = Extract<PrimaryLookup["finder"], { kind: "sentinels" }>;

/**
 * Lists all replicas that at least one sentinel knows. Any sentinel may lead the next failover, and then chooses among the
 * replicas that it knows.
 */
async function listedBySentinels(
  { servers, login, masterName }: Sentinels,
  ended: AbortSignal,
): Promise<readonly string[]> {
  const answers = await Promise.allSettled(
    servers.map((server) =>
      ask(server, login, ended, (redis) => redis.call("SENTINEL", "REPLICAS", masterName)),
    ),
  );
  const lists = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  if (lists.length <= servers.length / 2)
    throw new Error(`${lists.length} of ${servers.length} sentinels list the replicas`);
  return [...new Set(lists.flatMap(promotableOf))];
}

/** Returns the replicas that can take over, from a reply of SENTINEL REPLICAS. */
export function promotableOf(replicas: unknown): string[] {
  return namedFields(replicas).flatMap(({ ip = "", port, "slave-priority": priority }) =>
    priority === "0" ? [] : [addressText({ host: ip, port: Number(port) })],
  );
}

/** Parses the items of a sentinel's reply: each is a flat list of names and values. */
export function namedFields(reply: unknown): Partial<Record<string, string>>[] {
  if (!Array.isArray(reply)) return [];
  return reply.map((words: string[]) =>
    Object.fromEntries(words.flatMap((word, i) => (i % 2 === 0 ? [[word, words[i + 1]]] : []))),
  );
}

/** A node, as a line in the reply to CLUSTER NODES describes it. */
type ClusterNode = {
  readonly id: string;
  readonly address: string;
  /** Id of the primary, if the node is a replica. */
  readonly primary: string | undefined;
  readonly isMyself: boolean;
  readonly isPromotable: boolean;
  /** True if the other nodes have marked it as failed. */
  readonly hasFailed: boolean;
  readonly hasSlots: boolean;
};

/** Lists the nodes of the Cluster, except those whose address the asked node does not know yet. */
export async function clusterNodes(redis: Redis): Promise<ClusterNode[]> {
  const lines = String(await redis.call("CLUSTER", "NODES")).split("\n");
  return lines.flatMap((line) => {
    const [id = "", address = "", flags = "", primary = "-", , , , , ...slots] = line.split(" ");
    const has = (...names: string[]): boolean => flags.split(",").some((flag) => names.includes(flag));
    if (id === "" || has("handshake", "noaddr")) return [];
    return {
      id,
      address: addressText(parseAddress(address.replace(/[@,].*$/, ""))),
      primary: primary === "-" ? undefined : primary,
      isMyself: has("myself"),
      isPromotable: !has("nofailover"),
      hasFailed: has("fail"),
      hasSlots: slots.length > 0,
    };
  });
}

/** Lists the replicas of the asked node that may take over from it, including those that are down. */
async function listedByCluster(redis: Redis): Promise<readonly string[]> {
  const nodes = await clusterNodes(redis);
  const own = nodes.find(({ isMyself }) => isMyself);
  return nodes
    .filter(({ primary, isPromotable }) => primary === own?.id && isPromotable)
    .map(({ address }) => address);
}
