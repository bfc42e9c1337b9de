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

/** Duration of the followers' lease. Processes send events only while the lease exists. */
export const LEASE_MS = 10_000;
const RENEW_EVERY_MS = 3000;
/** Timeout of a ping, after which the connection counts as dead. */
const SILENT_MS = 2000;

/** Time after which every healthy process has checked for followers. */
export const NOTICED_MS = CHECK_EVERY_MS + 500;

export type Follower = {
  onEvent(event: CallEvent, from: EventSender): void;
  /** Called with the numbers of events that a process has only counted, because they exceeded its limit. */
  onLeftOut(leftOut: LeftOut, from: EventSender): void;
  /** Called when a process has begun to send its events. */
  onSender(sender: EventSender): void;
  /** Called when the connection or the lease fails. Events may be missed until `onReturned`. */
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

/** Follows all processes of a deployment, over its own connection, until it is stopped. */
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

  /** Pings the connection, because it may be dead without having closed. */
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

/** Deletes the lease, unless there are other followers. */
async function endLease({ redis, keys }: Partition): Promise<void> {
  const [, others] = await redis.pubsub("NUMSUB", keys.events);
  if (Number(others) === 0) await redis.del(keys.followed);
}
