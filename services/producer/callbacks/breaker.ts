import { BoundedMap } from "../../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../../shared/platform/time/backoff.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";

/** So many deliveries in a row without an answer, and the receiver is away. */
const FAILURES_IN_A_ROW = 5;
/** The pauses between two trials of a receiver that is away. */
const PAUSES: Backoff = { baseMs: 5000, capMs: 300_000 };
/** Of so many receivers their failures are remembered, the newest: strangers may name any number. */
const REMEMBERED_MAX = 10_000;

/** A delivery that is under way. One of the three is called when it has ended. */
export type Attempt = {
  /** The receiver has answered, whatever it said. */
  answered(): void;
  failed(reason: string): void;
  /** It was given up, which tells nothing of the receiver. */
  ended(): void;
};

export type Breaker = {
  /** Begins a delivery. For a receiver that is away, answers why and for how long none is begun (ms). */
  begin(receiver: string): Attempt | { away: string; forMs: number };
  /** How many receivers are away. */
  away(): number;
};

type Receiver = {
  failures: number;
  reason: string;
  /** Since when it is away. */
  awaySince: number | undefined;
  /** When the next trial may begin. */
  trialAt: number;
  trials: number;
  isTried: boolean;
};

/**
 * Keeps deliveries from waiting, each for a time-out, for a receiver that does not answer. While it is away there is one trial at a time,
 * after growing pauses; every other delivery fails at once, and waits for its next attempt. Two log lines are all that an outage leaves.
 */
export function createBreaker({ clock, log }: { clock: Clock; log: Logger }): Breaker {
  const receivers = new BoundedMap<string, Receiver>(REMEMBERED_MAX);

  function remembered(name: string): Receiver {
    const known = receivers.get(name);
    if (known !== undefined) return known;
    const receiver = { failures: 0, reason: "", awaySince: undefined, trialAt: 0, trials: 0, isTried: false };
    receivers.set(name, receiver);
    return receiver;
  }

  function present(name: string, receiver: Receiver): void {
    if (receiver.awaySince !== undefined)
      log.info("receiver.up", { receiver: name, awayMs: clock() - receiver.awaySince });
    receivers.delete(name);
  }

  function missed(name: string, receiver: Receiver, reason: string): void {
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
          if (known !== undefined) present(name, known);
        },
        failed(reason) {
          end();
          const known = remembered(name);
          // Whoever else was under way when it was found to be away tells nothing new.
          if (known.awaySince === undefined || isTrial) missed(name, known, reason);
        },
        ended: end,
      };
    },
    away: () => [...receivers.values()].filter(({ awaySince }) => awaySince !== undefined).length,
  };
}
