import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Query } from "../url-fragment.ts";
import { pauseSince, type Refused, request, toRefused } from "./ask.ts";
import type { AnswerAt, InputAt, PathOf } from "./contract.ts";
import { followLive, isLive, type LiveName } from "./live.ts";
import { isTransient, RETRY_MS_MAX, useRetry } from "./use-retry.ts";

export type Answer<Data> = {
  /**
   * The newest answer. If the path or query has changed, the previous answer stays here until the new one arrives, so
   * that the page does not flicker.
   */
  data: Data | undefined;
  /** Whether `data` is for the current path and query. */
  isCurrent: boolean;
  /**
   * The error of the last request, if it failed. `data` is then still the last good answer, but only if that was for
   * the same path and query.
   */
  refused: Refused | undefined;
  /** Time at which `data` arrived, unix ms. */
  at: number | undefined;
  /** Whether `data` is older than it should be, because the answer to a later poll is late. */
  isOld(now: number): boolean;
  reload(): void;
};

type State<Data> = { data?: Data; key?: string; at?: number; refused?: Refused | undefined };

/** Time after which an answer that was due counts as late. */
const LATE_MS = 10_000;

/** Returns the updater of the state after a refused request. It stores the refusal, and drops data of another path or query. */
function withRefusal<Data>(requestKey: string, refused: Refused) {
  return (before: State<Data>): State<Data> =>
    before.key === requestKey ? { ...before, refused } : { refused };
}

/**
 * Returns the pause before the next poll after a refusal. It is longer after a transient refusal, such as a 503,
 * because `useRetry` repeats that request earlier anyway.
 */
function pauseAfter(refused: Refused, everyMs: number): number {
  return refused.pauseMs + (isTransient(refused) ? Math.max(everyMs, RETRY_MS_MAX) : everyMs);
}

type Options = {
  everyMs?: number;
  turn?: number;
  /** The kind of streamed data that replaces the answer. While the stream sends it, the page does not poll. */
  live?: LiveName;
};

/**
 * Returns the answer to a GET, and keeps it up to date. While the page is visible, repeats the request every `everyMs`,
 * or less often if the console answers slowly. Also requests at once when the page becomes visible or `turn` changes,
 * and soon after a transient refusal (use-retry.ts). If `path` is undefined, sends no request.
 */
export function useAnswer<P extends PathOf<"GET">>(
  path: P | undefined,
  asked: InputAt<"GET", P>,
  { everyMs, turn = 0, live }: Options = {},
): Answer<AnswerAt<"GET", P>> {
  type Data = AnswerAt<"GET", P>;
  const requestKey = path === undefined ? undefined : JSON.stringify([path, asked]);
  const [state, setState] = useState<State<Data>>({});
  const [ownTurn, setTurn] = useState(0);
  const newest = useRef(0);

  useEffect(() => {
    if (requestKey === undefined) return;
    const stop = new AbortController();
    const [own, asks] = JSON.parse(requestKey) as [P, InputAt<"GET", P>];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let earliest = 0;

    // All requests share one timer. So only one later request is scheduled, even if several are in flight.
    const loadIn = (ms: number): void => {
      clearTimeout(timer);
      timer = setTimeout(requestIfVisible, ms);
    };
    const load = async (): Promise<void> => {
      newest.current += 1;
      const number = newest.current;
      const begunAt = Date.now();
      const take = (next: (before: State<Data>) => State<Data>): void => {
        if (number === newest.current) setState(next);
      };
      let refused: Refused | undefined;
      try {
        const data = await request("GET", own, asks, stop.signal);
        take(() => ({ data, key: requestKey, at: Date.now() }));
      } catch (error) {
        if (stop.signal.aborted) return;
        refused = toRefused(error);
        earliest = Date.now() + refused.pauseMs;
        take(withRefusal(requestKey, refused));
      }
      if (everyMs !== undefined && !stop.signal.aborted)
        loadIn(refused === undefined ? Math.max(everyMs, pauseSince(begunAt)) : pauseAfter(refused, everyMs));
    };
    const requestIfVisible = (): void => {
      if (document.hidden) return;
      if (live !== undefined && everyMs !== undefined && isLive()) loadIn(everyMs);
      else void load();
    };
    const requestAgain = (): void => {
      if (document.hidden || everyMs === undefined || Date.now() < earliest) return;
      clearTimeout(timer);
      void load();
    };
    void load();
    document.addEventListener("visibilitychange", requestAgain);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", requestAgain);
    };
  }, [requestKey, everyMs, turn, ownTurn, live]);

  useEffect(() => {
    if (requestKey === undefined || live === undefined) return;
    const [, query] = JSON.parse(requestKey) as [string, Query];
    const take = (data: unknown): void => {
      newest.current += 1;
      setState({ data: data as Data, key: requestKey, at: Date.now() });
    };
    const fail = (refused: Refused): void => setState((before) => ({ ...before, refused }));
    return followLive({ name: live, query, take, fail });
  }, [requestKey, live]);

  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const { data, key, at, refused } = state;
  useRetry(refused, reload);
  const isOld = (now: number): boolean => {
    if (at === undefined || everyMs === undefined || (live !== undefined && isLive())) return false;
    return now - at > everyMs + LATE_MS;
  };
  return { data, isCurrent: key === requestKey, refused, at, isOld, reload };
}
