import { randomUUID } from "node:crypto";
import { messageOf } from "../../platform/errors/app-error.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { delay, within } from "../../platform/time/clock.ts";
import { connectBeside } from "../../redis/connect.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { nothing } from "../../redis/reply.ts";
import { type CallEvent, EventBatch, type EventSender, type LeftOut } from "./event.ts";
import followLua from "./follow.lua";
import { CHECK_EVERY_MS } from "./publish.ts";

/** Duration of the followers' lease, a Redis key that all followers renew. Processes send events only while it exists. */
export const LEASE_MS = 10_000;
const RENEW_EVERY_MS = 3000;
/** Timeout of a ping. Without a reply in this time the connection counts as dead, and is opened again. */
const SILENT_MS = 2000;

/** Time after which every healthy process has noticed the lease: each checks for it once in `CHECK_EVERY_MS`. */
export const NOTICED_MS = CHECK_EVERY_MS + 500;

export type Follower = {
  onEvent(event: CallEvent, from: EventSender): void;
  /** Called with the number of events, by outcome, that a process did not send because they exceeded its limit per second. */
  onLeftOut(leftOut: LeftOut, from: EventSender): void;
  /** Called when the first message of a process arrives. A process sends one as soon as it notices the follower. */
  onSender(sender: EventSender): void;
  /**
   * Called when the connection breaks or the lease cannot be renewed. The follower may miss events until `onReturned`
   * is called.
   */
  onLost(reason: string): void;
  onReturned(): void;
  /** Called for a message that this release cannot parse. */
  onUnreadable(): void;
};

export type Following = {
  /** Resolves once every healthy process sends its events. */
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

/** Passes the events of all processes of a deployment to `follower`, until `stop` is called. Uses its own Redis connection. */
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
  const senders = new Set<string>();
  connection.on("error", (error: Error) => lost(messageOf(error)));
  connection.on("close", () => lost("the connection was closed"));
  connection.on("message", (_channel: string, text: string) => take(text));

  function take(text: string): void {
    const batch = EventBatch.safeParse(parseJson(text)).data;
    if (batch === undefined) {
      follower.onUnreadable();
      return;
    }
    const { from, events, left_out } = batch;
    const name = `${from.service} ${from.process}`;
    if (!senders.has(name)) follower.onSender(from);
    senders.add(name);
    for (const event of events) follower.onEvent(event, from);
    if (left_out !== undefined) follower.onLeftOut(left_out, from);
  }

  /**
   * Pings Redis, because a connection can be dead although neither side has closed it. If no reply comes in time,
   * connects again.
   */
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
      await endLease(partition).catch(() => {}); // if this fails, the lease expires later
    },
  };
}

/** Deletes the lease, so that processes stop sending events at once. Keeps it if other followers still listen. */
async function endLease({ redis, keys }: Partition): Promise<void> {
  const [, others] = await redis.pubsub("NUMSUB", keys.events);
  if (Number(others) === 0) await redis.del(keys.followed);
}
