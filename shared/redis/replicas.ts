import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import {
  addressText,
  ask,
  findPrimary,
  type PrimaryLookup,
  parseAddress,
  type ServerAddress,
} from "./connector.ts";
import { parseInfo, requireDurableReplica } from "./server-state.ts";

/** The replicas that are attached to a primary. */
export type Replication = {
  /** Changes whenever a server becomes a primary. */
  readonly id: string;
  /** Addresses of the replicas that have a connection to it. */
  readonly attached: readonly string[];
};

/** All replicas of a primary. */
export type Replicas = Replication & {
  /** Addresses of the replicas that can take over, also of those that are down. */
  readonly promotable: readonly string[];
};

/**
 * Finds the primary and all its replicas. Throws the reason if they are not known, or if a replica's settings would lose what it has
 * confirmed (`start.redis_not_durable`).
 */
export async function findReplicas(lookup: PrimaryLookup, ended: AbortSignal): Promise<Replicas> {
  const primary = await findPrimary(lookup, ended);
  const at = <Answer>(server: ServerAddress, question: (redis: Redis) => Promise<Answer>) =>
    ask(lookup.natMap?.[addressText(server)] ?? server, lookup, ended, question);
  const [replication, promotable] = await Promise.all([
    at(primary, readReplication),
    lookup.finder.kind === "sentinels"
      ? listedBySentinels(lookup.finder, ended)
      : at(primary, listedByCluster),
  ]);
  await Promise.all(
    replication.attached.map((address) =>
      at(parseAddress(address), requireDurableReplica).catch((error: unknown) => {
        throw ofReplica(address, error);
      }),
    ),
  );
  return { ...replication, promotable };
}

function ofReplica(address: string, error: unknown): Error {
  const reason = `of the replica ${address}: ${messageOf(error)}`;
  return error instanceof AppError ? new AppError(error.code, { reason, cause: error }) : new Error(reason);
}

async function readReplication(redis: Redis): Promise<Replication> {
  const replication = toReplication(await redis.info("replication"));
  if (replication === undefined) throw new Error("the server that was named as the primary is a replica");
  return replication;
}

/** Reads INFO of a primary. Undefined for a replica. */
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

/** Any of the sentinels may lead a failover, and chooses among the replicas that it lists. */
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

function promotableOf(replicas: unknown): string[] {
  if (!Array.isArray(replicas)) return [];
  return replicas.flatMap((words: string[]) => {
    const of = (name: string): string | undefined => {
      const at = words.findIndex((word, i) => i % 2 === 0 && word === name);
      return at < 0 ? undefined : words[at + 1];
    };
    return of("slave-priority") === "0"
      ? []
      : [addressText({ host: of("ip") ?? "", port: Number(of("port")) })];
  });
}

/** The replicas of the node that is asked. */
async function listedByCluster(redis: Redis): Promise<readonly string[]> {
  const nodes = String(await redis.call("CLUSTER", "NODES"))
    .split("\n")
    .map((line) => line.split(" "));
  const own = nodes.find(([, , flags]) => flags?.split(",").includes("myself"))?.[0];
  return nodes.flatMap(([, address = "", flags = "", primary]) => {
    const isPromotable = !/\b(?:handshake|noaddr|nofailover)\b/.test(flags);
    return primary === own && isPromotable ? [addressText(parseAddress(address.replace(/@.*$/, "")))] : [];
  });
}
