import { BoundedMap } from "../../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../../shared/platform/time/backoff.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";

/** A receiver counts as away after this many consecutive deliveries to it got no answer. */
const FAILURES_IN_A_ROW = 5;
/** Backoff between two trials of a receiver that is away. A trial is a delivery that is sent in spite of that. */
const PAUSES: Backoff = { baseMs: 5000, capMs: 300_000 };
/**
 * Maximum number of receivers whose failures are remembered. Clients may name more receivers, and then the oldest entries are
 * forgotten.
 */
const REMEMBERED_MAX = 10_000;

/**
 * A delivery in progress. When it has ended, the caller must call one of the three functions. It may call `ended` after
 * `answered`, which changes nothing.
 */
export type Attempt = {
  /** The receiver has answered, with any status. */
  answered(): void;
  failed(reason: string): void;
  /** The delivery ended in a way that says nothing about the receiver, such as a cancellation. */
  ended(): void;
};

export type Breaker = {
  /** Begins a delivery. If the receiver is away, returns the reason, and the ms until a delivery may begin. */
  begin(receiver: string): Attempt | { away: string; forMs: number };
  /** Returns the number of receivers that are away. */
  away(): number;
};

type Receiver = {
  failures: number;
  reason: string;
  /** When the receiver was first found to be away; undefined if it is not away. */
  awaySince: number | undefined;
  /** Earliest time of the next trial. */
  trialAt: number;
  trials: number;
  isTried: boolean;
};

/**
 * Keeps deliveries from waiting for the timeout of a receiver that does not answer. While a receiver is away, only one
 * delivery at a time is tried, and the pauses between these trials grow. All other deliveries fail at once, and are repeated
 * later like after any failed attempt. An outage logs only two lines: its begin and its end.
 */
export function createBreaker({ clock, log }: { clock: Clock; log: Logger }): Breaker {
  const receivers = new BoundedMap<string, Receiver>(REMEMBERED_MAX);

  function receiverOf(name: string): Receiver {
    const known = receivers.get(name);
    if (known !== undefined) return known;
    const receiver = { failures: 0, reason: "", awaySince: undefined, trialAt: 0, trials: 0, isTried: false };
    receivers.set(name, receiver);
    return receiver;
  }

  function noteAnswer(name: string, receiver: Receiver): void {
    if (receiver.awaySince !== undefined)
      log.info("receiver.up", { receiver: name, awayMs: clock() - receiver.awaySince });
    receivers.delete(name);
  }

  function noteFailure(name: string, receiver: Receiver, reason: string): void {
    const now = clock();
    receiver.failures += 1;
    receiver.reason = reason;
    if (receiver.failures < FAILURES_IN_A_ROW) return;
    if (receiver.awaySince === undefined) {
      receiver.awaySince = now;
      log.warn("receiver.down", { receiver: name, reason });
    }
    receiver.trials += 1;
    receiver.trialAt = now + backoffMs(PAUSES, receiver.trials, () => 0.5 + Math.random() / 2);
  }

  return {
    begin(name) {
      const receiver = receivers.get(name);
      const since = clock();
      const isTrial = receiver?.awaySince !== undefined;
      if (receiver !== undefined && isTrial) {
        if (receiver.isTried || since < receiver.trialAt)
          return { away: receiver.reason, forMs: Math.max(0, receiver.trialAt - since) };
        receiver.isTried = true;
      }
      const end = (): void => {
        if (receiver !== undefined && isTrial) receiver.isTried = false;
      };
      return {
        answered() {
          end();
          const known = receivers.get(name);
          if (known !== undefined) noteAnswer(name, known);
        },
        failed(reason) {
          end();
          const known = receiverOf(name);
          // While the receiver is away, only the trial counts. Other deliveries that fail now were in flight when the outage
          // began.
          if (known.awaySince === undefined || isTrial) noteFailure(name, known, reason);
        },
        ended: end,
      };
    },
    away: () => [...receivers.values()].filter(({ awaySince }) => awaySince !== undefined).length,
  };
}
