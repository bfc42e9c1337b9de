import { useEffect, useRef, useState } from "preact/hooks";
import type { PaymentView } from "../../../../shared/console/payment-view.ts";
import type { RefundCase } from "../../../../shared/console/refunds.ts";
import { ask, type Refused } from "../../api/ask.ts";
import type { AskedAt } from "../../api/contract.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { usePages } from "../../api/use-pages.ts";

/** So many answers are asked for by themselves, of 10,000 payments each. */
const LOOKS_MAX = 20;

type Items = { "api/v1/payments": PaymentView; "api/v1/payments/refunds": RefundCase };
export type Path = keyof Items;
type Item<P extends Path> = Items[P];
type Page<P extends Path> = { payments: Item<P>[]; next: string | null };

export type Found<P extends Path> = {
  payments: Item<P>[];
  newest: Answer<Page<P>>;
  /** Why older ones could not be looked at. */
  refused: Refused | undefined;
  /** Whether all payments were looked at. */
  isWhole: boolean;
  isLooking: boolean;
  /** Undefined while it is looking, and if nothing older is left or more would be too many. */
  lookFurther: (() => void) | undefined;
};

type Options<P extends Path> = {
  everyMs: number;
  turn?: number;
  /** Whether no more are wanted. */
  isEnough(items: readonly Item<P>[]): boolean;
};

/**
 * The payments that match, some perhaps twice: the newest are asked for again and again, and what is older once, until there are enough. An
 * answer looks at so many payments and no more, so that even one without a payment may not be the last.
 */
export function useFound<P extends Path>(
  path: P,
  asked: AskedAt<"GET", "api/v1/payments">,
  options: Options<P>,
): Found<P> {
  const { everyMs, turn = 0, isEnough } = options;
  const newest = useAnswer<Path>(path, asked, { everyMs, turn }) as Answer<Page<P>>;
  const [from, setFrom] = useState<string | undefined>();
  const { payments: now, next } = newest.data ?? {};
  const before = useRef<readonly Item<P>[]>([]);
  useEffect(() => {
    if (now === undefined) return;
    const ids = new Set(now.map(({ call_id }) => call_id));
    // It may have been pushed out by newer ones: then it lies before the place where the older ones begin.
    const hasLeft = before.current.some(({ call_id }) => !ids.has(call_id));
    before.current = now;
    if (typeof next === "string" && (from === undefined || hasLeft)) setFrom(next);
  }, [from, now, next]);

  const [most, setMost] = useState(LOOKS_MAX);
  const looks = useRef(0);
  const read = async (cursor: string | undefined, signal: AbortSignal) => {
    if (from === undefined) return { items: [], next: null };
    if (cursor === undefined) looks.current = 0;
    const page = (await ask<"GET", Path>(
      "GET",
      path,
      { ...asked, cursor: cursor ?? from },
      signal,
    )) as Page<P>;
    looks.current += 1;
    return { items: page.payments, next: page.next };
  };
  const older = usePages<Item<P>>(JSON.stringify([path, asked]), read, { turn: `${turn} ${from}` });
  const { items, isLoading, refused, more, again } = older;
  const payments = [...(now ?? []), ...items];
  const isBegun = typeof next !== "string" || from !== undefined;
  const isWhole = newest.data !== undefined && isBegun && older.isWhole;
  const isFull = isEnough(payments);
  const goesOn = !older.isWhole && refused === undefined && looks.current < most && !isFull;
  useEffect(() => {
    if (goesOn && !isLoading) more();
  }, [goesOn, isLoading, more]);

  const isUnknown = newest.data === undefined && newest.refused === undefined;
  const isLooking = isUnknown || isLoading || goesOn || !isBegun;
  const lookFurther = () => {
    setMost(looks.current + LOOKS_MAX);
    if (refused !== undefined) again();
  };
  const canGoOn = newest.data !== undefined && !isLooking && !isWhole && !isFull;
  return { payments, newest, refused, isWhole, isLooking, lookFurther: canGoOn ? lookFurther : undefined };
}
