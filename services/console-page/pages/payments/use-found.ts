import { useEffect, useRef, useState } from "preact/hooks";
import type { PaymentView } from "../../../../shared/console/payment-view.ts";
import type { RefundCase } from "../../../../shared/console/refunds.ts";
import { type Refused, request } from "../../api/ask.ts";
import type { InputAt } from "../../api/contract.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { usePages } from "../../api/use-pages.ts";

/**
 * Maximum number of requests for older payments that the page sends by itself. After them, the user must click to
 * continue. Each request searches at most 10,000 payments.
 */
const UNPROMPTED_REQUESTS_MAX = 20;

type Items = { "api/v1/payments": PaymentView; "api/v1/payments/refunds": RefundCase };
export type Path = keyof Items;
type Item<P extends Path> = Items[P];
type Page<P extends Path> = { payments: Item<P>[]; next: string | null };

export type FoundPayments<P extends Path> = {
  payments: Item<P>[];
  newest: Answer<Page<P>>;
  /** Error of the last request for older payments, if it failed. */
  refused: Refused | undefined;
  /** Whether all payments were searched. */
  isWhole: boolean;
  isLooking: boolean;
  /**
   * Continues the search. Undefined while a search is running, if all payments were searched, and if the list has
   * enough payments.
   */
  lookFurther: (() => void) | undefined;
};

type Options<P extends Path> = {
  everyMs: number;
  turn?: number;
  /** Returns whether these payments are enough, so that the search can stop. */
  isEnough(items: readonly Item<P>[]): boolean;
};

/**
 * Searches for matching payments, from the newest to the oldest, until there are enough. Each request searches only a
 * limited number of payments, so even an answer without a match does not end the search. The page with the newest
 * payments is read repeatedly, but the older ones only once. So a payment may be in both parts, and twice in the list.
 */
export function usePaymentSearch<P extends Path>(
  path: P,
  asked: InputAt<"GET", "api/v1/payments">,
  options: Options<P>,
): FoundPayments<P> {
  const { everyMs, turn = 0, isEnough } = options;
  const newest = useAnswer<Path>(path, asked, { everyMs, turn }) as Answer<Page<P>>;
  const [from, setFrom] = useState<string | undefined>();
  const { payments: now, next } = newest.data ?? {};
  const before = useRef<readonly Item<P>[]>([]);
  useEffect(() => {
    if (now === undefined) return;
    const ids = new Set(now.map(({ call_id }) => call_id));
    // `from` is the cursor at the end of the first page when the older payments were read. New payments can push a
    // payment off the first page. It would then be neither on the first page nor among the older ones. So the older
    // payments are read again, from the new end of the first page.
    const hasLeft = before.current.some(({ call_id }) => !ids.has(call_id));
    before.current = now;
    if (typeof next === "string" && (from === undefined || hasLeft)) setFrom(next);
  }, [from, now, next]);

  const [most, setMost] = useState(UNPROMPTED_REQUESTS_MAX);
  const looks = useRef(0);
  const read = async (cursor: string | undefined, signal: AbortSignal) => {
    if (from === undefined) return { items: [], next: null };
    if (cursor === undefined) looks.current = 0;
    const page = (await request<"GET", Path>(
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
    setMost(looks.current + UNPROMPTED_REQUESTS_MAX);
    if (refused !== undefined) again();
  };
  const canGoOn = newest.data !== undefined && !isLooking && !isWhole && !isFull;
  return { payments, newest, refused, isWhole, isLooking, lookFurther: canGoOn ? lookFurther : undefined };
}
