import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Query } from "../url-fragment.ts";
import { ask, pauseSince, type Refused, toRefused } from "./ask.ts";
import type { AnswerAt, AskedAt, PathOf } from "./contract.ts";
import { followLive, isLive, type LiveName } from "./live.ts";
import { mayPass, RETRY_MS_MAX, useRetry } from "./use-retry.ts";

export type Answer<Data> = {
  /** The newest that came; of the question before while a new one is under way, so that nothing on the page jumps. */
  data: Data | undefined;
  /** Whether `data` answers the question that was asked last. */
  isCurrent: boolean;
  /** Why the last answer is none. `data` stays if it answers the same question. */
  refused: Refused | undefined;
  /** When `data` came, unix ms. */
  at: number | undefined;
  /** Whether `data` is too old to be of now, as where an answer does not come. */
  isOld(now: number): boolean;
  reload(): void;
};

type State<Data> = { data?: Data; url?: string; at?: number; refused?: Refused | undefined };

/** An answer may come so much later than it was due. */
const LATE_MS = 10_000;

/** What answers another question must not stand under this one. */
function refusedAs<Data>(question: string, refused: Refused) {
  return (before: State<Data>): State<Data> =>
    before.url === question ? { ...before, refused } : { refused };
}

/** `useRetry` asks sooner than this, unless the stream has told meanwhile. */
function pauseAfter(refused: Refused, everyMs: number): number {
  return refused.pauseMs + (mayPass(refused) ? Math.max(everyMs, RETRY_MS_MAX) : everyMs);
}

type Options = {
  everyMs?: number;
  turn?: number;
  /** If the stream tells of it: nothing is then asked again, as long as the stream tells. */
  live?: LiveName;
};

/**
 * What the service answers to a GET, asked again every `everyMs` while the page can be seen, and at once when it is seen again or `turn`
 * changes. What takes the service long is asked for less often. After a refusal that may pass it is asked again soon (use-retry.ts). Without a
 * path nothing is asked.
 */
export function useAnswer<P extends PathOf<"GET">>(
  path: P | undefined,
  asked: AskedAt<"GET", P>,
  { everyMs, turn = 0, live }: Options = {},
): Answer<AnswerAt<"GET", P>> {
  type Data = AnswerAt<"GET", P>;
  const question = path === undefined ? undefined : JSON.stringify([path, asked]);
  const [state, setState] = useState<State<Data>>({});
  const [ownTurn, setTurn] = useState(0);
  const newest = useRef(0);

  useEffect(() => {
    if (question === undefined) return;
    const stop = new AbortController();
    const [own, asks] = JSON.parse(question) as [P, AskedAt<"GET", P>];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let earliest = 0;

    // One question at a time waits for its turn, however many are under way.
    const lookIn = (ms: number): void => {
      clearTimeout(timer);
      timer = setTimeout(look, ms);
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
        const data = await ask("GET", own, asks, stop.signal);
        take(() => ({ data, url: question, at: Date.now() }));
      } catch (error) {
        if (stop.signal.aborted) return;
        refused = toRefused(error);
        earliest = Date.now() + refused.pauseMs;
        take(refusedAs(question, refused));
      }
      if (everyMs !== undefined && !stop.signal.aborted)
        lookIn(refused === undefined ? Math.max(everyMs, pauseSince(begunAt)) : pauseAfter(refused, everyMs));
    };
    const look = (): void => {
      if (document.hidden) return;
      if (live !== undefined && everyMs !== undefined && isLive()) lookIn(everyMs);
      else void load();
    };
    const lookAgain = (): void => {
      if (document.hidden || everyMs === undefined || Date.now() < earliest) return;
      clearTimeout(timer);
      void load();
    };
    void load();
    document.addEventListener("visibilitychange", lookAgain);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", lookAgain);
    };
  }, [question, everyMs, turn, ownTurn, live]);

  useEffect(() => {
    if (question === undefined || live === undefined) return;
    const [, query] = JSON.parse(question) as [string, Query];
    const take = (data: unknown): void => {
      newest.current += 1;
      setState({ data: data as Data, url: question, at: Date.now() });
    };
    const fail = (refused: Refused): void => setState((before) => ({ ...before, refused }));
    return followLive({ name: live, query, take, fail });
  }, [question, live]);

  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const { data, url, at, refused } = state;
  useRetry(refused, reload);
  const isOld = (now: number): boolean => {
    if (at === undefined || everyMs === undefined || (live !== undefined && isLive())) return false;
    return now - at > everyMs + LATE_MS;
  };
  return { data, isCurrent: url === question, refused, at, isOld, reload };
}
