import { callsIn, type PaidSum, type PartialSum } from "../../api/payments.ts";
import { amountsText, paidText } from "../../ui/amount.ts";
import { Notice } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { linkTo } from "../../url-fragment.ts";

/** Shows how a discard would affect payments: how many of the calls are paid, for which amount, and how many are not paid. */
export function PaidSplit({ paid, calls }: { paid: PaidSum | null; calls: number }) {
  const paidCalls = paid === null ? 0 : callsIn(paid);
  if (paid === null || paidCalls === 0) return null;
  const { confirmed, unconfirmed, unreadable } = paid;
  const others = calls - paidCalls;
  const title = `${count(paidCalls)} of ${counted(calls, "call")} ${paidCalls === 1 ? "is" : "are"} paid`;
  return (
    <Notice tone="warn" title={title}>
      <p>
        A discarded call can no longer run, so its refund becomes due. Discarding does not send the refund. It
        is listed under Payments, Refunds.
      </p>
      <ul>
        {confirmed.calls > 0 && (
          <li>
            <strong>{counted(confirmed.calls, "refund")} due</strong>: {amountsText(confirmed.amounts)}
          </li>
        )}
        {unconfirmed.calls > 0 && (
          <li>
            <strong>{counted(unconfirmed.calls, "payment")} not yet confirmed on chain</strong>:{" "}
            {amountsText(unconfirmed.amounts)}
          </li>
        )}
        {unreadable > 0 && (
          <li>
            <strong>{counted(unreadable, "payment")}</strong> with an unreadable amount
          </li>
        )}
        {others > 0 && (
          <li>
            <strong>{counted(others, "call")}</strong> without a refund
          </li>
        )}
      </ul>
    </Notice>
  );
}

/** Shows the refunds that are due because calls were discarded. Some of them may have been paid since then. */
export function DueRefunds({ due }: { due: PartialSum | null }) {
  if (due === null || callsIn(due) === 0) return null;
  return (
    <p>
      <a href={linkTo(["payments"], { view: "refunds" })}>Refunds became due</a>:{" "}
      {paidText(due, !due.is_whole)}.
    </p>
  );
}
