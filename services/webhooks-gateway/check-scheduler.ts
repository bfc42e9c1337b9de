import type { ServerResponse } from "node:http";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";

/** Checks that end with a refusal may use 1/PARTS of the process's time. */
const PARTS = 4;
/**
 * Time in ms by which failing checks may exceed their share before further checks must wait. Because of this reserve, a
 * few wrong credentials delay no check.
 */
const ADVANCE_MS = 100;
/**
 * Limit on the time in ms that is charged for one check. If a check seems to take longer, the operating system has
 * probably paused the process.
 */
const CHECK_MS_MAX = 1000;
const WAIT_MS_MAX = 5000;
/** Limit on addresses whose refusals are counted. Beyond this number the oldest entry is forgotten. */
const ADDRESSES_MAX = 10_000;

/** A request whose whole body has arrived and whose credential is not checked yet. */
type PendingCheck = {
  readonly res: ServerResponse;
  /** Rate-limit key of the client's address. */
  readonly clientKey: string;
  readonly lease: Pick<BodyLease, "wait">;
  /** Size of the body. */
  readonly bytes: number;
  /**
   * Time in ms that earlier parts of this request's check took. A check has several parts if it fetches something in
   * between.
   */
  tookMs?: number;
};

export type CheckScheduler = {
  /**
   * Runs a check that parses, sorts or hashes the whole body. Throws what the check throws. Throws
   * `request.over_budget` if the request waits too long, the client disconnects, or the body budget refuses the request
   * to free memory. If a check has several parts, call this function for each; each waits for its own turn.
   */
  run<Result>(request: PendingCheck, check: () => Result): Promise<Result>;
};

type Turn = { request: PendingCheck; begin(): void };

/**
 * Limits the time that the process spends on wrong credentials. Only checks that fail are counted. Whether a check will
 * fail is not known before it runs. So once failing checks have used their share of the time, all checks wait. Requests
 * from addresses with fewer refusals go first, then requests with smaller bodies. A small body takes less time to
 * check, and need not wait behind large bodies with wrong credentials. If memory runs short, the body budget can still
 * refuse a waiting request (body-budget.ts).
 */
export function createCheckScheduler(): CheckScheduler {
  const waiting = new Set<Turn>();
  /** Number of refusals by address. The numbers are cleared once failing checks are within their share again. */
  const refusals = new BoundedMap<string, number>(ADDRESSES_MAX);
  /** Time by `performance.now()` at which failing checks are within their share again. */
  let usedUntil = 0;
  let isScheduled = false;

  function checkNow<Result>(request: PendingCheck, check: () => Result): Result {
    const { clientKey, tookMs: tookBefore = 0 } = request;
    const begun = performance.now();
    if (usedUntil <= begun) refusals.clear();
    try {
      const result = check();
      request.tookMs = tookBefore + performance.now() - begun;
      return result;
    } catch (refusal) {
      const tookMs = Math.min(tookBefore + performance.now() - begun, CHECK_MS_MAX);
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
    else setImmediate(nextTurn); // a timer would take a millisecond or more, and many small bodies may wait
  }

  function waitForTurn<Result>(request: PendingCheck, check: () => Result): Promise<Result> {
    const { res, lease } = request;
    return new Promise((resolve, reject) => {
      const turn: Turn = {
        request,
        begin() {
          leave();
          try {
            resolve(checkNow(request, check));
          } catch (refusal) {
            reject(refusal);
          }
        },
      };
      const leave = (): void => {
        waiting.delete(turn);
        clearTimeout(timeout);
        res.off("close", onClose);
        endWait();
      };
      const giveUp = (error: AppError): void => {
        leave();
        reject(error);
      };
      const onClose = () => giveUp(overBudget("the client disconnected before its credential was checked"));
      const timeout = setTimeout(
        () => giveUp(overBudget(`the credential was not checked within ${WAIT_MS_MAX} ms`)),
        WAIT_MS_MAX,
      );
      const endWait = lease.wait(giveUp);
      res.once("close", onClose);
      waiting.add(turn);
      scheduleTurn();
    });
  }

  return {
    async run(request, check) {
      if (waiting.size === 0 && msUntilTurn() === 0) return checkNow(request, check);
      return await waitForTurn(request, check);
    },
  };
}

function overBudget(reason: string): AppError {
  return new AppError("request.over_budget", { reason, retryAfterMs: 5000 });
}

/** Chooses the next turn: fewest refusals, then smallest body, then oldest. */
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
