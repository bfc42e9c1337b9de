import type { ServerResponse } from "node:http";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";

/** Checks that refuse take one part in this many of the process's time. */
const PARTS = 4;
/** Time that checks may use up in advance, so that those of few wrong requests begin at once. */
const ADVANCE_MS = 100;
/** A check that seems longer was interrupted by the system. */
const CHECK_MS_MAX = 1000;
const WAIT_MS_MAX = 5000;
/** Beyond this many addresses the one that was refused first is forgotten. */
const PARTIES_MAX = 10_000;

/** A request with its whole body, of which nothing is proven yet. */
type Unproven = {
  readonly res: ServerResponse;
  /** Rate-limit key of the client's address. */
  readonly clientKey: string;
  readonly lease: Pick<BodyLease, "wait">;
  /** Size of the body. */
  readonly bytes: number;
};

export type CheckTurns = {
  /**
   * Runs a check of a credential that works on the whole body: parses, sorts or hashes it. Throws what the check throws, and
   * `request.over_budget` if the request has waited too long for its turn or its body had to make room.
   */
  run(request: Unproven, check: () => void): Promise<void>;
};

type Turn = { request: Unproven; begin(): void };

/**
 * Bounds the time that wrong credentials cost the process. A check that holds is free. Once checks that refuse have used up their share
 * of the time, all checks wait. Addresses with fewer refusals come first, and of one address small bodies come before large ones. The
 * cost of a check grows with its body, so small bodies cannot use up the share, and small deliveries do not wait for large wrong bodies
 * of their address. A body that waits can still be cut (body-budget.ts).
 */
export function createCheckTurns(): CheckTurns {
  const waiting = new Set<Turn>();
  /** Refusals by address since the share was last unused. */
  const refusals = new BoundedMap<string, number>(PARTIES_MAX);
  /** The share of the time before this instant is used up. */
  let usedUntil = 0;
  let isScheduled = false;

  function checkNow(clientKey: string, check: () => void): void {
    const begun = performance.now();
    if (usedUntil <= begun) refusals.clear();
    try {
      check();
    } catch (refusal) {
      const tookMs = Math.min(performance.now() - begun, CHECK_MS_MAX);
      usedUntil = Math.max(usedUntil, begun) + tookMs * PARTS;
      refusals.set(clientKey, (refusals.get(clientKey) ?? 0) + 1);
      throw refusal;
    }
  }

  function msUntilTurn(): number {
    return Math.max(0, usedUntil - ADVANCE_MS - performance.now());
  }

  function nextTurn(): void {
    isScheduled = false;
    firstOf(waiting, refusals)?.begin();
    scheduleTurn();
  }

  function scheduleTurn(): void {
    if (isScheduled || waiting.size === 0) return;
    isScheduled = true;
    const ms = msUntilTurn();
    if (ms > 0) setTimeout(nextTurn, ms);
    else setImmediate(nextTurn); // a timer takes a millisecond at least, and many small bodies may wait
  }

  function checkInTurn(request: Unproven, check: () => void): Promise<void> {
    const { res, lease, clientKey } = request;
    return new Promise((resolve, reject) => {
      const turn: Turn = {
        request,
        begin() {
          leave();
          try {
            resolve(checkNow(clientKey, check));
          } catch (refusal) {
            reject(refusal);
          }
        },
      };
      const leave = (): void => {
        waiting.delete(turn);
        clearTimeout(tooLong);
        res.off("close", gone);
        endWait();
      };
      const giveUp = (error: AppError): void => {
        leave();
        reject(error);
      };
      const gone = () => giveUp(overBudget("the client disconnected before its credential was checked"));
      const tooLong = setTimeout(
        () => giveUp(overBudget(`the credential was not checked within ${WAIT_MS_MAX} ms`)),
        WAIT_MS_MAX,
      );
      const endWait = lease.wait(giveUp);
      res.once("close", gone);
      waiting.add(turn);
      scheduleTurn();
    });
  }

  return {
    async run(request, check) {
      if (waiting.size === 0 && msUntilTurn() === 0) checkNow(request.clientKey, check);
      else await checkInTurn(request, check);
    },
  };
}

function overBudget(reason: string): AppError {
  return new AppError("request.over_budget", { reason, retryAfterMs: 5000 });
}

/** The oldest of equal ones. */
function firstOf(waiting: Iterable<Turn>, refusals: ReadonlyMap<string, number>): Turn | undefined {
  let first: Turn | undefined;
  let fewest = 0;
  for (const turn of waiting) {
    const { clientKey, bytes } = turn.request;
    const refused = refusals.get(clientKey) ?? 0;
    if (first === undefined || refused < fewest || (refused === fewest && bytes < first.request.bytes)) {
      first = turn;
      fewest = refused;
    }
  }
  return first;
}
