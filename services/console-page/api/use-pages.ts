import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "./ask.ts";
import { useRetry } from "./use-retry.ts";

export type Paged<Item> = {
  items: readonly Item[];
  /** Number of all items in the list, if the console has sent it. */
  total: number | undefined;
  isLoading: boolean;
  /** Whether all pages of the list are read. */
  isWhole: boolean;
  refused: Refused | undefined;
  /** Time at which the first page arrived, unix ms; undefined before that. */
  at: number | undefined;
  /** Whether the last request was for a page after the first and was refused. Then `items` has only the beginning of the list. */
  isCut: boolean;
  /**
   * Reads the next page. Called when the user scrolls to the end of the list. Does nothing after a refusal, because
   * otherwise each scroll would repeat the refused request.
   */
  more(): void;
  /** Reads the list again from its beginning. The old items stay until the new first page arrives. */
  reload(): void;
  /** Requests the refused page again. After a transient refusal this happens by itself (use-retry.ts). */
  again(): void;
};

type Page<Item> = { items: readonly Item[]; next: string | null; total?: number | undefined };

type State<Item> = {
  /** Key of the list that has these items. */
  of: string;
  turn: Turn;
  items: readonly Item[];
  total: number | undefined;
  next: string | null | undefined;
  isLoading: boolean;
  refused: Refused | undefined;
  at: number | undefined;
};

type Turn = string | number;

const UNANSWERED = {
  items: [],
  total: undefined,
  next: undefined,
  isLoading: true,
  refused: undefined,
  at: undefined,
};

/**
 * Reads a list page by page. The console ends each page with a cursor, from which the next one is read. `listKey`
 * identifies the list, for example by its filter. If it changes, the list becomes empty and is read from its beginning.
 * If only `turn` changes, the list is also read from its beginning, but the old items stay until the new first page
 * arrives.
 */
export function usePages<Item>(
  listKey: string,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
  { turn = 0 }: { turn?: Turn } = {},
): Paged<Item> {
  const [state, setState] = useState<State<Item>>({ of: listKey, turn, ...UNANSWERED });
  const [ownTurn, setTurn] = useState(0);
  const under = useRef<AbortController>(null);
  const reader = useRef(read);
  reader.current = read;

  const load = useCallback(async (of: string, turn: Turn, cursor?: string) => {
    under.current?.abort();
    const stop = new AbortController();
    under.current = stop;
    // If this request fails, a retry starts from the cursor in `next`. So `next` must be the cursor of this request: an
    // older one could belong to another list.
    setState((before) => ({ ...before, next: cursor, isLoading: true }));
    try {
      const { items, next, total } = await reader.current(cursor, stop.signal);
      if (stop.signal.aborted) return;
      setState((before) => ({
        of,
        turn,
        items: cursor === undefined ? items : [...before.items, ...items],
        total: total ?? before.total,
        next,
        isLoading: false,
        refused: undefined,
        at: cursor === undefined ? Date.now() : before.at,
      }));
    } catch (error) {
      if (stop.signal.aborted) return;
      const refused = toRefused(error);
      setState((before) =>
        before.of === of
          ? { ...before, turn, isLoading: false, refused }
          : { of, turn, ...UNANSWERED, isLoading: false, refused },
      );
    } finally {
      if (under.current === stop) under.current = null;
    }
  }, []);

  useEffect(() => {
    void load(listKey, turn);
    return () => under.current?.abort();
  }, [listKey, turn, ownTurn, load]);

  const isSameList = state.of === listKey;
  const { items, total, next, isLoading, refused, at } = isSameList ? state : UNANSWERED;
  const goOn = useCallback(() => {
    if (typeof next === "string" && under.current === null) void load(listKey, turn, next);
  }, [next, load, listKey, turn]);
  const more = useCallback(() => {
    if (refused === undefined) goOn();
  }, [refused, goOn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const again = typeof next === "string" ? goOn : reload;
  useRetry(refused, again);
  const isCurrentTurn = isSameList && state.turn === turn;
  return {
    items,
    total,
    isLoading: isLoading || !isCurrentTurn,
    isWhole: isCurrentTurn && next === null,
    refused,
    at,
    isCut: refused !== undefined && typeof next === "string",
    more,
    reload,
    again,
  };
}
