import type { PaidSum, TokenAmount } from "../../../shared/console/paid-sum.ts";
import { amountOf } from "../payments/list.ts";

/** Verbs for sentences about the payments, in the question before a discard and in the report after it. */
const TENSES = {
  before: { one: "is", many: "are", due: "become due" },
  after: { one: "was", many: "were", due: "are due (postern refunds list)" },
} as const;

/**
 * Says in a few lines how many of the selected calls were paid, and which refunds a discard makes due. Returns no lines
 * if no call was paid. With `isAtLeast`, the numbers are only lower limits.
 */
export function paidLines(paid: PaidSum | null, tense: keyof typeof TENSES, isAtLeast = false): string[] {
  if (paid === null) return [];
  const { one, many, due } = TENSES[tense];
  const callsWord = (calls: number) =>
    `${isAtLeast ? "at least " : ""}${calls} of them ${calls === 1 ? one : many} paid`;
  const { confirmed, unconfirmed, unreadable } = paid;
  return [
    ...(confirmed.calls > 0
      ? [`${callsWord(confirmed.calls)}, ${amountsText(confirmed.amounts)}: refunds ${due}`]
      : []),
    ...(unconfirmed.calls > 0
      ? [`${callsWord(unconfirmed.calls)}, ${amountsText(unconfirmed.amounts)}: not yet confirmed on chain`]
      : []),
    ...(unreadable > 0 ? [`${callsWord(unreadable)}, with an unreadable amount`] : []),
  ];
}

/** Formats the total of each token. Tokens with the same symbol also show their network and contract. */
function amountsText(amounts: readonly TokenAmount[]): string {
  const texts = amounts.map((each) => {
    const text = amountOf(each, each.decimals);
    const isAlone = amounts.every((other) => other === each || other.symbol !== each.symbol);
    return isAlone ? text : `${text} (${each.asset} on ${each.network})`;
  });
  return texts.join(" and ");
}
