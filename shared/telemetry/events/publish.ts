import { hostname } from "node:os";
import type { Fields, Logger } from "../../platform/log/logger.ts";
import type { Clock } from "../../platform/time/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import type { CallEvent, EventBatch, LeftOut, Teller } from "./event.ts";
import { FROM_LOG } from "./from-log.ts";

/** How often a process looks whether somebody follows. */
export const LOOK_EVERY_MS = 1000;

/** What one process tells in a second at most, and keeps in memory while Redis is slow. What is above is counted. */
export const TOLD_PER_SECOND = { events: 1000, bytes: 256 * 1024 } as const;

/** A message that is larger would hold up the commands behind it. */
const MESSAGE_BYTES_MAX = 32 * 1024;

type Options = {
  partition: Partition;
  service: Teller["service"];
  /** Fields that every event of this process has. */
  about?: Fields;
  clock: Clock;
};

/** A logger whose events are also told to followers, as long as there are any. */
export type TellingLog = Logger & {
  /** Ends the look for followers. */
  stop(): void;
};

/**
 * Tells followers what is logged. While nobody follows, an entry of the log costs one comparison and Redis gets one GET a second. With
 * followers the events of a turn of the event loop are one message, and nothing waits for it.
 */
export function tellFollowers(log: Logger, options: Options): TellingLog {
  const { about, clock } = options;
  const publisher = createPublisher(options);
  const through = (write: Logger["info"]): Logger["info"] => {
    return (event, fields = {}) => {
      write(event, fields);
      if (!publisher.isFollowed) return;
      const told = FROM_LOG[event]?.({ ...about, ...fields }, clock());
      if (told !== undefined) publisher.add(told);
    };
  };
  return {
    info: through(log.info),
    warn: through(log.warn),
    error: through(log.error),
    stop: publisher.stop,
  };
}

function createPublisher({ partition: { redis, keys }, service }: Options) {
  const from: Teller = { service, process: `${hostname()}:${process.pid}` };
  const backlog = createBacklog();
  let lease: string | null = null;
  let isLooking = false;
  let isSending = false;
  let flushing: NodeJS.Immediate | undefined;

  async function look(): Promise<void> {
    backlog.beginSecond();
    if (isLooking || redis.status !== "ready") return;
    isLooking = true;
    const seen = await redis.get(keys.followed).catch(() => lease);
    isLooking = false;
    const isNew = seen !== null && seen !== lease;
    lease = seen;
    if (lease === null) backlog.forget();
    else if (isNew) void send(lease);
    else if (backlog.isUntold()) flush();
  }

  function flush(): void {
    flushing = undefined;
    if (!isSending) void send();
  }

  /** What Redis does not take is lost. A connection that waits for Redis would keep it, so nothing is sent meanwhile. */
  async function send(hello?: string): Promise<void> {
    if (redis.status !== "ready") return backlog.forget();
    isSending = true;
    await redis.publish(keys.events, backlog.take({ v: 1, from, ...(hello && { hello }) })).catch(() => {});
    isSending = false;
    if (backlog.hasEvents()) flush();
  }

  const onTime = (): void => void look();
  redis.on("ready", onTime);
  const timer = setInterval(onTime, LOOK_EVERY_MS).unref();
  onTime();

  return {
    get isFollowed(): boolean {
      return lease !== null;
    },
    add(event: CallEvent): void {
      if (backlog.add(event)) flushing ??= setImmediate(flush);
    },
    stop(): void {
      clearInterval(timer);
      clearImmediate(flushing);
      redis.off("ready", onTime);
      lease = null;
    },
  };
}

/** Events as JSON until they are sent, within the bound of each second, and the count of those above it. */
function createBacklog() {
  let waiting: string[] = [];
  let waitingBytes = 0;
  let leftOut: LeftOut = {};
  let eventsLeft: number = TOLD_PER_SECOND.events;
  let bytesLeft: number = TOLD_PER_SECOND.bytes;

  /** As many as one message may hold. */
  function takeEvents(): string[] {
    let bytes = 0;
    const end = waiting.findIndex((json) => {
      bytes += Buffer.byteLength(json);
      return bytes > MESSAGE_BYTES_MAX;
    });
    const taken = waiting.splice(0, end === -1 ? waiting.length : Math.max(1, end));
    for (const json of taken) waitingBytes -= Buffer.byteLength(json);
    return taken;
  }

  return {
    beginSecond(): void {
      eventsLeft = TOLD_PER_SECOND.events;
      bytesLeft = TOLD_PER_SECOND.bytes;
    },
    /** Whether it is to be sent. */
    add(event: CallEvent): boolean {
      const json = JSON.stringify(event);
      const bytes = Buffer.byteLength(json);
      if (eventsLeft === 0 || bytes > bytesLeft || waitingBytes + bytes > TOLD_PER_SECOND.bytes) {
        const times = event.outcome === "refused" ? event.times : 1;
        leftOut[event.outcome] = (leftOut[event.outcome] ?? 0) + times;
        return false;
      }
      eventsLeft -= 1;
      bytesLeft -= bytes;
      waiting.push(json);
      waitingBytes += bytes;
      return true;
    },
    /** The next message, as JSON. */
    take(head: Omit<EventBatch, "events">): string {
      const counted = Object.keys(leftOut).length > 0 ? { ...head, left_out: leftOut } : head;
      leftOut = {};
      return `${JSON.stringify(counted).slice(0, -1)},"events":[${takeEvents().join(",")}]}`;
    },
    hasEvents: () => waiting.length > 0,
    isUntold: () => waiting.length > 0 || Object.keys(leftOut).length > 0,
    forget(): void {
      waiting = [];
      waitingBytes = 0;
      leftOut = {};
    },
  };
}
