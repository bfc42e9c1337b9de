import { hostname } from "node:os";
import type { Fields, Logger } from "../../platform/log/logger.ts";
import type { Clock } from "../../platform/time/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import type { CallEvent, EventBatch, EventSender, LeftOut } from "./event.ts";
import { FROM_LOG } from "./from-log.ts";

/** Interval at which a process checks for followers. */
export const CHECK_EVERY_MS = 1000;

/**
 * Limits on the events that one process sends in a second. `bytes` also limits the size of the events that wait in
 * memory while Redis is slow. A process only counts the events above a limit, and sends their number.
 */
export const SENT_PER_SECOND_MAX = { events: 1000, bytes: 256 * 1024 } as const;

/** Maximum size of a message. A larger one would delay the next Redis commands. */
const MESSAGE_BYTES_MAX = 32 * 1024;

type Options = {
  partition: Partition;
  service: EventSender["service"];
  /** Fields that every event of this process has. */
  about?: Fields;
  clock: Clock;
};

/** A logger that also sends its log events to followers, such as `postern tail`, while there are any. */
export type PublishingLog = Logger & {
  /** Stops checking for followers. */
  stop(): void;
};

/**
 * Wraps `log`, so that each log event is also sent to followers. While there are no followers, a log entry costs one
 * comparison, and Redis gets one GET a second. With followers, the events of one turn of the event loop are collected
 * and sent together at its end. The caller of the log waits for none of this.
 */
export function publishToFollowers(log: Logger, options: Options): PublishingLog {
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
  const from: EventSender = { service, process: `${hostname()}:${process.pid}` };
  const backlog = createBacklog();
  let lease: string | null = null;
  let isChecking = false;
  let isSending = false;
  let flushing: NodeJS.Immediate | undefined;

  async function checkFollowers(): Promise<void> {
    backlog.beginSecond();
    if (isChecking || redis.status !== "ready") return;
    isChecking = true;
    const seen = await redis.get(keys.followed).catch(() => lease);
    isChecking = false;
    const isNew = seen !== null && seen !== lease;
    lease = seen;
    if (lease === null) backlog.forget();
    else if (isNew) void send(lease);
    else if (backlog.hasUnsent()) flush();
  }

  function flush(): void {
    flushing = undefined;
    if (!isSending) void send();
  }

  /**
   * Sends the next message. If Redis does not accept it, its events are lost. While there is no connection, all waiting
   * events are dropped. Otherwise the Redis client would keep the message, and send it after the reconnect.
   */
  async function send(hello?: string): Promise<void> {
    if (redis.status !== "ready") return backlog.forget();
    isSending = true;
    await redis.publish(keys.events, backlog.take({ v: 1, from, ...(hello && { hello }) })).catch(() => {});
    isSending = false;
    if (backlog.hasEvents()) flush();
  }

  const onTime = (): void => void checkFollowers();
  redis.on("ready", onTime);
  const timer = setInterval(onTime, CHECK_EVERY_MS).unref();
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

/** Collects events as JSON until they are sent. Events above the limit for one second are only counted. */
function createBacklog() {
  let waiting: string[] = [];
  let waitingBytes = 0;
  let leftOut: LeftOut = {};
  let eventsLeft: number = SENT_PER_SECOND_MAX.events;
  let bytesLeft: number = SENT_PER_SECOND_MAX.bytes;

  /** Removes from `waiting` as many events as one message may hold, but at least one. */
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
      eventsLeft = SENT_PER_SECOND_MAX.events;
      bytesLeft = SENT_PER_SECOND_MAX.bytes;
    },
    /** Adds an event. Returns false if it exceeds a limit and is only counted. */
    add(event: CallEvent): boolean {
      const json = JSON.stringify(event);
      const bytes = Buffer.byteLength(json);
      if (eventsLeft === 0 || bytes > bytesLeft || waitingBytes + bytes > SENT_PER_SECOND_MAX.bytes) {
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
    /** Builds the next message as JSON. It has as many events as it may hold, and the numbers of events that were not sent. */
    take(head: Omit<EventBatch, "events">): string {
      const counted = Object.keys(leftOut).length > 0 ? { ...head, left_out: leftOut } : head;
      leftOut = {};
      return `${JSON.stringify(counted).slice(0, -1)},"events":[${takeEvents().join(",")}]}`;
    },
    hasEvents: () => waiting.length > 0,
    hasUnsent: () => waiting.length > 0 || Object.keys(leftOut).length > 0,
    forget(): void {
      waiting = [];
      waitingBytes = 0;
      leftOut = {};
    },
  };
}
