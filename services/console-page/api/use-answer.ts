import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Query } from "../url-fragment.ts";
import { pauseSince, type Refused, request, toRefused } from "./ask.ts";
import type { AnswerAt, InputAt, PathOf } from "./contract.ts";
import { followLive, isLive, type LiveName } from "./live.ts";
import { isTransient, RETRY_MS_MAX, useRetry } from "./use-retry.ts";

export type Answer<Data> = {
  /**
   * The newest answer. While a request for another path or query is in flight, it is the previous answer, so that the
   * page does not jump.
   */
  data: Data | undefined;
  /** Whether `data` is for the current path and query. */
  isCurrent: boolean;
  /** The reason why the last request failed. `data` stays if it is for the same path and query. */
  refused: Refused | undefined;
  /** Time at which `data` arrived, unix ms. */
  at: number | undefined;
  /** Whether `data` is outdated, for example because an answer does not come. */
  isOld(now: number): boolean;
  reload(): void;
};

type State<Data> = { data?: Data; key?: string; at?: number; refused?: Refused | undefined };

/** An answer is late if it comes this long after it was due. */
const LATE_MS = 10_000;

/** Adds the refusal to the state. Drops the data if it is for another path or query. */
function withRefusal<Data>(requestKey: string, refused: Refused) {
  return (before: State<Data>): State<Data> =>
    before.key === requestKey ? { ...before, refused } : { refused };
}

/**
 * Returns the pause before the next poll after a refusal. It is longer after a transient refusal, because `useRetry`
 * already repeats that request.
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
 * Returns the answer to a GET. While the page is visible, repeats the request every `everyMs`, or less often if the
 * service takes long. Requests at once when the page becomes visible or `turn` changes, and soon after a transient
 * refusal (use-retry.ts). Sends no request without a path.
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

    // Only one later request is scheduled at a time, even if several are in flight.
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
