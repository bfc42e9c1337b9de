import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "./ask.ts";

export type Paged<Item> = {
  items: readonly Item[];
  /** How many there are in all, if the service has said. */
  total: number | undefined;
  isLoading: boolean;
  /** Whether nothing more follows. */
  isWhole: boolean;
  refused: Refused | undefined;
  more(): void;
  /** From the beginning. What is shown stays until the new beginning is there. */
  reload(): void;
};

type Page<Item> = { items: readonly Item[]; next: string | null; total?: number | undefined };

type State<Item> = {
  items: readonly Item[];
  total: number | undefined;
  next: string | null | undefined;
  isLoading: boolean;
  refused: Refused | undefined;
};

/** A list that is read page by page, each from where the one before ended. `question` names what is asked: another one begins anew. */
export function usePages<Item>(
  question: string,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
): Paged<Item> {
  const [state, setState] = useState<State<Item>>({
    items: [],
    total: undefined,
    next: undefined,
    isLoading: true,
    refused: undefined,
  });
  const [turn, setTurn] = useState(0);
  const under = useRef<AbortController>(null);
  const reader = useRef(read);
  reader.current = read;

  const load = useCallback(async (cursor: string | undefined) => {
    under.current?.abort();
    const stop = new AbortController();
    under.current = stop;
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const { items, next, total } = await reader.current(cursor, stop.signal);
      if (stop.signal.aborted) return;
      setState((before) => ({
        items: cursor === undefined ? items : [...before.items, ...items],
        total: total ?? before.total,
        next,
        isLoading: false,
        refused: undefined,
      }));
    } catch (error) {
      if (!stop.signal.aborted)
        setState((before) => ({ ...before, isLoading: false, refused: toRefused(error) }));
    } finally {
      if (under.current === stop) under.current = null;
    }
  }, []);

  useEffect(() => {
    void load(undefined);
    return () => under.current?.abort();
  }, [question, turn, load]);

  const { items, total, next, isLoading, refused } = state;
  const more = useCallback(() => {
    if (typeof next === "string" && under.current === null) void load(next);
  }, [next, load]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { items, total, isLoading, isWhole: next === null, refused, more, reload };
}
