import type { PaidSum, TokenAmount } from "../../../shared/console/paid-sum.ts";
import { amountOf } from "../payments/list.ts";

/** Words for calls before their discard, and after it. */
const TENSES = {
  before: { one: "is", many: "are", due: "become due" },
  after: { one: "was", many: "were", due: "are due (postern refunds list)" },
} as const;

/** Describes the payments for some calls in a few lines. Empty if nothing was paid. */
export function paidLines(paid: PaidSum | null, tense: keyof typeof TENSES, isAtLeast = false): string[] {
  if (paid === null) return [];
  const { one, many, due } = TENSES[tense];
  const ofThem = (calls: number) =>
    `${isAtLeast ? "at least " : ""}${calls} of them ${calls === 1 ? one : many} paid`;
  const { confirmed, unconfirmed, unreadable } = paid;
  return [
    ...(confirmed.calls > 0
      ? [`${ofThem(confirmed.calls)}, ${amountsText(confirmed.amounts)}: refunds ${due}`]
      : []),
    ...(unconfirmed.calls > 0
      ? [`${ofThem(unconfirmed.calls)}, ${amountsText(unconfirmed.amounts)}: not yet confirmed on chain`]
      : []),
    ...(unreadable > 0 ? [`${ofThem(unreadable)}, with an unreadable amount`] : []),
  ];
}

/** Each token's own sum. What shares its symbol with another one is told apart by its network and contract. */
function amountsText(amounts: readonly TokenAmount[]): string {
  const texts = amounts.map((each) => {
    const text = amountOf(each, each.decimals);
    const isAlone = amounts.every((other) => other === each || other.symbol !== each.symbol);
    return isAlone ? text : `${text} (${each.asset} on ${each.network})`;
  });
  return texts.join(" and ");
}
