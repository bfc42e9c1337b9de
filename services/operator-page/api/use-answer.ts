import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Query } from "../route.ts";
import { ask, type Refused, toRefused } from "./ask.ts";
import { followLive, isLive, type LiveName } from "./live.ts";

export type Answer<Data> = {
  /** The newest that came; of the question before while a new one is under way, so that nothing on the page jumps. */
  data: Data | undefined;
  /** Whether `data` answers the question that was asked last. */
  isCurrent: boolean;
  /** Why the last answer is none. `data` stays. */
  refused: Refused | undefined;
  /** When `data` came, unix ms. */
  at: number | undefined;
  reload(): void;
};

type State<Data> = { data?: Data; url?: string; at?: number; refused?: Refused | undefined };

/** The pause is so many times as long as the answer took. */
const SHARE = 10;

type Options = {
  everyMs?: number;
  turn?: number;
  /** If the stream tells of it: nothing is then asked again, as long as the stream tells. */
  live?: LiveName;
};

/**
 * What the service answers to a GET, asked again every `everyMs` while the page can be seen, and at once when it is seen again or `turn`
 * changes. What takes the service long is asked for less often. Without a path nothing is asked.
 */
export function useAnswer<Data>(
  path: string | undefined,
  query: Query = {},
  { everyMs, turn = 0, live }: Options = {},
): Answer<Data> {
  const question = path === undefined ? undefined : JSON.stringify([path, query]);
  const [state, setState] = useState<State<Data>>({});
  const [ownTurn, setTurn] = useState(0);
  const newest = useRef(0);

  useEffect(() => {
    if (question === undefined) return;
    const stop = new AbortController();
    const [asked, asks] = JSON.parse(question) as [string, Query];
    let timer: ReturnType<typeof setTimeout> | undefined;

    // One question at a time waits for its turn, however many are under way.
    const lookIn = (ms: number): void => {
      clearTimeout(timer);
      timer = setTimeout(look, ms);
    };
    const load = async (): Promise<void> => {
      newest.current += 1;
      const number = newest.current;
      const begunAt = Date.now();
      try {
        const data = await ask<Data>("GET", asked, { query: asks, signal: stop.signal });
        if (number === newest.current) setState({ data, url: question, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((before) => ({ ...before, refused: toRefused(error) }));
      }
      if (everyMs !== undefined && !stop.signal.aborted)
        lookIn(Math.max(everyMs, SHARE * (Date.now() - begunAt)));
    };
    const look = (): void => {
      if (document.hidden) return;
      if (live !== undefined && everyMs !== undefined && isLive()) lookIn(everyMs);
      else void load();
    };
    const lookAgain = (): void => {
      if (document.hidden || everyMs === undefined) return;
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
    const [, asks] = JSON.parse(question) as [string, Query];
    return followLive({
      ...{ name: live, query: asks },
      take(data) {
        newest.current += 1;
        setState({ data: data as Data, url: question, at: Date.now() });
      },
      fail: (refused) => setState((before) => ({ ...before, refused })),
    });
  }, [question, live]);

  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const { data, url, at, refused } = state;
  return { data, isCurrent: url === question, refused, at, reload };
}
