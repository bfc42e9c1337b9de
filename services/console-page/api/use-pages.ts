import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "./ask.ts";
import { useRetry } from "./use-retry.ts";

export type Paged<Item> = {
  items: readonly Item[];
  /** How many there are in all, if the service has said. */
  total: number | undefined;
  isLoading: boolean;
  /** Whether nothing more follows. */
  isWhole: boolean;
  refused: Refused | undefined;
  /** Unix ms at which the first page came; undefined before that. */
  at: number | undefined;
  /** Whether it is a further page that was refused. */
  isCut: boolean;
  /** After a refusal it does nothing: whoever scrolls does not ask again and again. */
  more(): void;
  /** From the beginning. What is shown stays until the new beginning is there. */
  reload(): void;
  /** After a refusal: the same page again. If the refusal may pass, this is done without being asked for (use-retry.ts). */
  again(): void;
};

type Page<Item> = { items: readonly Item[]; next: string | null; total?: number | undefined };

type State<Item> = {
  /** The question that the items answer, and its turn. */
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
 * A list that is read page by page, each from where the one before ended. `question` names what is asked: another one begins anew, and shows
 * nothing of the one before. Another `turn` also begins anew, but what is shown stays until the new beginning is there.
 */
export function usePages<Item>(
  question: string,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
  { turn = 0 }: { turn?: Turn } = {},
): Paged<Item> {
  const [state, setState] = useState<State<Item>>({ of: question, turn, ...UNANSWERED });
  const [ownTurn, setTurn] = useState(0);
  const under = useRef<AbortController>(null);
  const reader = useRef(read);
  reader.current = read;

  const load = useCallback(async (of: string, turn: Turn, cursor?: string) => {
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
    void load(question, turn);
    return () => under.current?.abort();
  }, [question, turn, ownTurn, load]);

  const isSameQuestion = state.of === question;
  const { items, total, next, isLoading, refused, at } = isSameQuestion ? state : UNANSWERED;
  const goOn = useCallback(() => {
    if (typeof next === "string" && under.current === null) void load(question, turn, next);
  }, [next, load, question, turn]);
  const more = useCallback(() => {
    if (refused === undefined) goOn();
  }, [refused, goOn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const again = typeof next === "string" ? goOn : reload;
  useRetry(refused, again);
  const isOfNow = isSameQuestion && state.turn === turn;
  return {
    items,
    total,
    isLoading: isLoading || !isOfNow,
    isWhole: isOfNow && next === null,
    refused,
    at,
    isCut: refused !== undefined && typeof next === "string",
    more,
    reload,
    again,
  };
}
