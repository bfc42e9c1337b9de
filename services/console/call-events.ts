import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { toIso } from "../../shared/platform/time/iso.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { follow } from "../../shared/telemetry/events/follow.ts";
import type { Feed } from "./live.ts";

/**
 * Limit on the events that wait for a slow reader. Beyond it the stream ends. Otherwise events would be dropped,
 * and the reader would not notice it.
 */
const WAITING_MAX = 5000;

/**
 * Sends a stream the events that all processes publish about calls, such as `accepted` or `injected`. Each stream
 * has a Redis connection of its own.
 */
export function createCallEvents(partition: Partition): Feed {
  return (stream) => {
    let count = 0;
    let isOver = false;
    function tell(event: string, data: object): void {
      if (isOver) return;
      if (stream.waiting() >= WAITING_MAX) stream.end();
      else stream.send(`${event} ${++count}`, { event, data });
    }
    const following = follow(partition, {
      onEvent: (event, from) => tell("call", { ...event, at: toIso(event.at), from }),
      onLeftOut: (left_out, from) => tell("left_out", { left_out, from }),
      onSender: (teller) => tell("process", teller),
      onLost: (reason) => tell("lost", { reason }),
      onReturned: () => tell("restored", {}),
      onUnreadable: () => tell("unreadable", {}),
    });
    following.catch((error: unknown) => {
      tell("lost", { reason: messageOf(error) });
      stream.end();
    });
    return () => {
      isOver = true;
      following.then(({ stop }) => stop()).catch(() => {});
    };
  };
}
