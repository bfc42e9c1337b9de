import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { delay, settled } from "../platform/time/clock.ts";
import {
  type AskServer,
  addressText,
  ask,
  createAskServer,
  type Finder,
  findPrimary,
  type PrimaryLookup,
  parseAddress,
  type ServerAddress,
} from "./connector.ts";
import { clusterNodes, namedFields, promotableOf, type Replication, readReplication } from "./replicas.ts";

const POLL_MS = 250;
/** Time limit for a sentinel, after its reset, to find the replicas and the other sentinels again. */
const FOUND_AGAIN_MS = 30_000;

/** The planned removal of a node that no longer runs. Nothing is changed before `run` is called. */
export type Removal = {
  /** Servers that have the node in their lists, and will be made to forget it. */
  readonly listedBy: readonly string[];
  /** Servers that do not answer. They cannot be made to forget the node, and will list it again when they return. */
  readonly unreached: readonly string[];
  /** Replicas that stay attached to the primary of the deployment. */
  readonly replicas: readonly string[];
  /** Makes each server forget the node, and then calls `onForgotten` with the address of that server. */
  run(onForgotten: (server: string) => void): Promise<void>;
};

/**
 * Plans how to make Sentinel or a Cluster forget a replica, so that writes no longer wait for it. Throws the reason if it
 * must not be removed: it is a primary, it answers, or it is not listed.
 */
export async function planRemoval(lookup: PrimaryLookup, node: string): Promise<Removal> {
  const ended = new AbortController().signal;
  const askServer = createAskServer(lookup, ended);
  const primary = await findPrimary(lookup, ended);
  if (addressText(primary) === node) throw refusal(`${node} is the primary`);
  const replication = await askServer(primary, readReplication);
  if (replication.attached.includes(node)) throw refusal(`${node} is attached to the primary`);
  const answer = await settled(askServer(parseAddress(node), (redis) => redis.ping()));
  if (answer.kind === "done" || isReply(answer.error)) throw refusal(`${node} answers: stop it first`);
  const { finder } = lookup;
  return finder.kind === "sentinels"
    ? planAtSentinels({ node, replication, finder, ended })
    : planInCluster({ node, replication, primary, askServer });
}

function refusal(why: string): AppError {
  return AppError.public(
    "command.failed",
    `${why}. Only a replica that is gone can be removed; nothing was changed`,
  );
}

/** Returns whether the error is a server's refusal of a command, which shows that the server runs. */
function isReply(error: unknown): boolean {
  return error instanceof Error && error.name === "ReplyError";
}

type Sentinels = Extract<Finder, { kind: "sentinels" }>;
type Sentinel = { readonly id: string; readonly server: ServerAddress };

async function planAtSentinels({
  node,
  replication,
  finder,
  ended,
}: {
  node: string;
  replication: Replication;
  finder: Sentinels;
  ended: AbortSignal;
}): Promise<Removal> {
  const { masterName, login } = finder;
  const command = (server: ServerAddress, ...words: [string, ...string[]]) =>
    ask(server, login, ended, (redis) => redis.call("SENTINEL", ...words));
  const { found, unreached } = await findSentinels(finder, command);
  const lists = await Promise.all(
    found.map(async ({ server }) => promotableOf(await command(server, "REPLICAS", masterName))),
  );
  const listedBy = found.filter((_, i) => lists[i]?.includes(node)).map(({ server }) => addressText(server));
  if (listedBy.length === 0)
    throw refusal(`no sentinel lists ${node} as a replica. They list: ${textOf(new Set(lists.flat()))}`);

  /**
   * Resets one sentinel, and waits until it knows the replicas and the other sentinels again. Only then is the next one
   * reset. A sentinel that knows no others could take itself for the majority.
   */
  async function reset({ id, server }: Sentinel): Promise<void> {
    await command(server, "RESET", masterName);
    const others = found.filter((other) => other.id !== id).map((other) => other.id);
    const deadline = performance.now() + FOUND_AGAIN_MS;
    for (;;) {
      const knows = async () => {
        const replicas = promotableOf(await command(server, "REPLICAS", masterName));
        const ids = sentinelsIn(await command(server, "SENTINELS", masterName)).map((known) => known.id);
        return (
          replication.attached.every((address) => replicas.includes(address)) &&
          others.every((other) => ids.includes(other))
        );
      };
      if (await knows().catch(() => false)) return;
      if (performance.now() > deadline) throw new Error(notFoundAgain(addressText(server)));
      await delay(POLL_MS);
    }
  }

  return {
    listedBy,
    unreached,
    replicas: replication.attached,
    async run(tell) {
      for (const sentinel of found) {
        await reset(sentinel);
        tell(addressText(sentinel.server));
      }
    },
  };
}

function notFoundAgain(server: string): string {
  return (
    `the sentinel ${server} has not found the replicas and the other sentinels again within ${FOUND_AGAIN_MS / 1000} s. ` +
    "The sentinels after it still list the node: run this command again"
  );
}

type Command = (server: ServerAddress, ...words: [string, ...string[]]) => Promise<unknown>;

/** Finds all sentinels: those in the configuration, and others that the reached ones know. */
async function findSentinels({ servers, masterName }: Sentinels, command: Command) {
  const identify = async (server: ServerAddress): Promise<Sentinel> => ({
    id: String(await command(server, "MYID")),
    server,
  });
  const found = new Map<string, Sentinel>();
  const unreached = new Set<string>();
  /** Asks the servers for their ids, and adds each to `found` or `unreached`. */
  const addAll = async (added: readonly ServerAddress[]): Promise<void> => {
    const outcomes = await Promise.all(added.map((server) => settled(identify(server))));
    for (const [i, server] of added.entries()) {
      const outcome = outcomes[i];
      if (outcome?.kind !== "done") unreached.add(addressText(server));
      else if (!found.has(outcome.result.id)) found.set(outcome.result.id, outcome.result);
    }
  };
  await addAll(servers);
  const lists = await Promise.all(
    [...found.values()].map(async ({ server }) =>
      sentinelsIn(await command(server, "SENTINELS", masterName)),
    ),
  );
  const others = new Map(lists.flat().map(({ id, server }) => [id, server]));
  await addAll([...others].flatMap(([id, server]) => (found.has(id) ? [] : [server])));
  return { found: [...found.values()], unreached: [...unreached] };
}

function sentinelsIn(reply: unknown): Sentinel[] {
  return namedFields(reply).map(({ runid = "", ip = "", port }) => ({
    id: runid,
    server: { host: ip, port: Number(port) },
  }));
}

async function planInCluster({
  node,
  replication,
  primary,
  askServer,
}: {
  node: string;
  replication: Replication;
  primary: ServerAddress;
  askServer: AskServer;
}): Promise<Removal> {
  const nodes = await askServer(primary, clusterNodes);
  const gone = nodes.find(({ address }) => address === node);
  if (gone === undefined)
    throw refusal(
      `the Cluster does not list ${node}. It lists: ${textOf(nodes.map(({ address }) => address))}`,
    );
  if (gone.hasSlots) throw refusal(`${node} is the primary of slots`);
  const others = nodes.filter(({ id }) => id !== gone.id);
  const answers = await Promise.all(
    others.map(async (other) => ({
      ...other,
      outcome: await settled(askServer(parseAddress(other.address), (redis) => redis.ping())),
    })),
  );
  // All nodes must forget the removed one. A node that is down but not marked as failed may return soon and announce the
  // removed node to the others again.
  const silent = answers.find(({ outcome, hasFailed }) => outcome.kind === "failed" && !hasFailed);
  if (silent?.outcome.kind === "failed")
    throw refusal(`all nodes must forget ${node}, but ${silent.address}: ${messageOf(silent.outcome.error)}`);
  const reached = answers.filter(({ outcome }) => outcome.kind === "done").map(({ address }) => address);
  return {
    listedBy: reached,
    unreached: answers.flatMap(({ outcome, address }) => (outcome.kind === "failed" ? [address] : [])),
    replicas: replication.attached,
    /**
     * Makes all nodes forget `gone` at once. A node ignores what others say about a forgotten node only for a minute. After
     * that, it would learn of `gone` again from a node that still lists it.
     */
    async run(tell) {
      const forgotten = await Promise.all(
        reached.map((address) =>
          settled(askServer(parseAddress(address), (redis) => forget(redis, gone.id))),
        ),
      );
      const failures = forgotten.flatMap((outcome, i) =>
        outcome.kind === "failed" ? [`${reached[i]}: ${messageOf(outcome.error)}`] : [],
      );
      for (const [i, { kind }] of forgotten.entries()) if (kind === "done") tell(reached[i] as string);
      if (failures.length > 0)
        throw new Error(`not forgotten by ${failures.join("; ")}. Run this command again`);
    },
  };
}

/**
 * Makes a node forget another one. The answer "Unknown node" is not treated as an error: newer servers tell each other to
 * forget a node, so this one may have forgotten it already.
 */
async function forget(redis: Redis, id: string): Promise<void> {
  await redis.cluster("FORGET", id).catch((error: unknown) => {
    if (!messageOf(error).includes("Unknown node")) throw error;
  });
}

function textOf(addresses: Iterable<string>): string {
  return [...addresses].join(", ") || "none";
}
