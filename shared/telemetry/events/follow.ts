import { randomUUID } from "node:crypto";
import { messageOf } from "../../platform/errors/app-error.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { delay, within } from "../../platform/time/clock.ts";
import { connectBeside } from "../../redis/connect.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { nothing } from "../../redis/reply.ts";
import { type CallEvent, EventBatch, type LeftOut, type Teller } from "./event.ts";
import followLua from "./follow.lua";
import { LOOK_EVERY_MS } from "./publish.ts";

/** Processes tell nothing once the lease is not renewed for this long. */
export const LEASE_MS = 10_000;
const RENEW_EVERY_MS = 3000;
/** Time-out of a ping, after which the connection counts as dead. */
const SILENT_MS = 2000;

/** By then every process that is well has looked for followers. */
export const NOTICED_MS = LOOK_EVERY_MS + 500;

export type Follower = {
  onEvent(event: CallEvent, from: Teller): void;
  /** Events above the bound of a process, which were not told one by one. */
  onLeftOut(leftOut: LeftOut, from: Teller): void;
  /** A process has begun to tell its events. */
  onTeller(teller: Teller): void;
  /** Events are missed until `onReturned`. */
  onLost(reason: string): void;
  onReturned(): void;
  /** A message that this release cannot read. */
  onUnreadable(): void;
};

export type Following = {
  /** Resolves once every process that is well tells its events. */
  readonly noticed: Promise<void>;
  stop(): Promise<void>;
};

const FOLLOW = defineScript({
  source: followLua,
  keys: "followed",
  args: "id, leaseMs, isNew",
  proof: "expendable",
  reply: nothing,
});

/** Follows all processes of a deployment, over a connection of its own, until it is stopped. */
export async function follow(partition: Partition, follower: Follower): Promise<Following> {
  const { redis, keys } = partition;
  const lease = FOLLOW.on(redis);
  const id = randomUUID();
  const hold = (isNew: boolean) => lease({ followed: keys.followed }, { id, leaseMs: LEASE_MS, isNew });
  const connection = connectBeside(redis, { enableOfflineQueue: true, maxRetriesPerRequest: null });
  let isLost = false;
  const lost = (reason: string): void => {
    if (!isLost) follower.onLost(reason);
    isLost = true;
  };
  const tellers = new Set<string>();
  connection.on("error", (error: Error) => lost(messageOf(error)));
  connection.on("close", () => lost("the connection was closed"));
  connection.on("message", (_channel: string, text: string) => take(text));

  function take(text: string): void {
    const told = EventBatch.safeParse(parseJson(text)).data;
    if (told === undefined) {
      follower.onUnreadable();
      return;
    }
    const { from, events, left_out } = told;
    const name = `${from.service} ${from.process}`;
    if (!tellers.has(name)) follower.onTeller(from);
    tellers.add(name);
    for (const event of events) follower.onEvent(event, from);
    if (left_out !== undefined) follower.onLeftOut(left_out, from);
  }

  /** A connection may be dead without having closed. */
  async function checkConnection(): Promise<void> {
    if (connection.status !== "ready") return;
    const { kind } = await within(SILENT_MS, connection.ping());
    if (kind === "late") connection.disconnect(true);
  }

  async function renew(): Promise<void> {
    void checkConnection();
    try {
      await hold(false);
      if (isLost && connection.status === "ready") {
        isLost = false;
        follower.onReturned();
      }
    } catch (error) {
      lost(messageOf(error));
    }
  }

  try {
    await connection.subscribe(keys.events);
    await hold(true);
  } catch (error) {
    connection.disconnect();
    throw error;
  }
  const timer = setInterval(() => void renew(), RENEW_EVERY_MS);
  return {
    noticed: delay(NOTICED_MS),
    async stop() {
      clearInterval(timer);
      connection.removeAllListeners("close");
      connection.disconnect();
      await endLease(partition).catch(() => {}); // then it ends by itself
    },
  };
}

/** Unless others follow. */
async function endLease({ redis, keys }: Partition): Promise<void> {
  const [, others] = await redis.pubsub("NUMSUB", keys.events);
  if (Number(others) === 0) await redis.del(keys.followed);
}
