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
  /** After a refusal it does nothing: whoever scrolls does not ask again and again. */
  more(): void;
  /** From the beginning. What is shown stays until the new beginning is there. */
  reload(): void;
  /** After a refusal: the same page again. */
  again(): void;
};

type Page<Item> = { items: readonly Item[]; next: string | null; total?: number | undefined };

type State<Item> = {
  /** The question that the items answer. */
  of: string;
  items: readonly Item[];
  total: number | undefined;
  next: string | null | undefined;
  isLoading: boolean;
  refused: Refused | undefined;
};

/**
 * A list that is read page by page, each from where the one before ended. `question` names what is asked: another one begins anew, as does
 * another `turn`.
 */
export function usePages<Item>(
  question: string,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
  { turn = 0 }: { turn?: number } = {},
): Paged<Item> {
  const [state, setState] = useState<State<Item>>({
    ...{ of: question, items: [], total: undefined, next: undefined, isLoading: true, refused: undefined },
  });
  const [ownTurn, setTurn] = useState(0);
  const under = useRef<AbortController>(null);
  const reader = useRef(read);
  reader.current = read;

  const load = useCallback(async (of: string, cursor?: string) => {
    under.current?.abort();
    const stop = new AbortController();
    under.current = stop;
    // The cursor of another question leads into another list.
    setState((before) => ({ ...before, next: cursor, isLoading: true }));
    try {
      const { items, next, total } = await reader.current(cursor, stop.signal);
      if (stop.signal.aborted) return;
      setState((before) => ({
        of,
        items: cursor === undefined ? items : [...before.items, ...items],
        total: total ?? before.total,
        next,
        isLoading: false,
        refused: undefined,
      }));
    } catch (error) {
      if (stop.signal.aborted) return;
      const refused = toRefused(error);
      setState((before) =>
        before.of === of
          ? { ...before, isLoading: false, refused }
          : { of, items: [], total: undefined, next: undefined, isLoading: false, refused },
      );
    } finally {
      if (under.current === stop) under.current = null;
    }
  }, []);

  useEffect(() => {
    void load(question);
    return () => under.current?.abort();
  }, [question, turn, ownTurn, load]);

  const { of, items, total, next, isLoading, refused } = state;
  const goOn = useCallback(() => {
    if (of === question && typeof next === "string" && under.current === null) void load(question, next);
  }, [of, next, load, question]);
  const more = useCallback(() => {
    if (refused === undefined) goOn();
  }, [refused, goOn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const again = typeof next === "string" ? goOn : reload;
  const isOfNow = of === question;
  return {
    ...{ items, total, isLoading: isLoading || !isOfNow, isWhole: isOfNow && next === null, refused },
    ...{ more, reload, again },
  };
}
