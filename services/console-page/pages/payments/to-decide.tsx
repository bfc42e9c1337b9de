import type { Payment, PaymentAction } from "../../api/payments.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Badge } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { linkTo } from "../../url-fragment.ts";
import { SearchContinuation } from "./further.tsx";
import { DISPUTED, wordsOf, wordsOfPayment } from "./state-words.ts";
import { type FoundPayments, usePaymentSearch } from "./use-found.ts";

const SHOWN = 50;

const PATH = "api/v1/payments";
const isEnough = (payments: readonly Payment[]) => payments.filter(isToDecide).length >= SHOWN;

/** Lists the payments about which an operator must decide, however old they are. */
export function ToDecide() {
  const asked = { limit: SHOWN };
  const inReview = usePaymentSearch(PATH, { ...asked, state: "review" }, { everyMs: 10_000, isEnough });
  const disputed = usePaymentSearch(PATH, { ...asked, disputed: "true" }, { everyMs: 30_000, isEnough });
  const refunding = usePaymentSearch(
    PATH,
    { ...asked, state: "refund_pending" },
    { everyMs: 30_000, isEnough },
  );
  const all = [inReview, disputed, refunding];
  const byId = new Map(all.flatMap(({ payments }) => payments.map((each) => [each.call_id, each])));
  const found = [...byId.values()].filter(isToDecide).slice(0, SHOWN);
  const isWhole = all.every((each) => each.isWhole);
  const refusals = new Map(all.map(({ newest }) => [newest.refused?.detail, newest]));
  const isLooking = all.some((each) => each.isLooking);
  return (
    <>
      {[...refusals.values()].map((answer) => (
        <StaleNotice key={answer.refused?.detail} answer={answer} />
      ))}
      <Card
        title="Decisions needed"
        isBare={found.length > 0}
        tools={
          <>
            <PaymentGroup state="review" of={inReview} />
            <PaymentGroup state={DISPUTED} of={disputed} />
          </>
        }
      >
        {found.length > 0 && (
          <ul class="to-decide">
            {found.map((payment) => (
              <Row key={payment.call_id} payment={payment} />
            ))}
          </ul>
        )}
        {found.length === 0 && isLooking && <p class="muted">Loading</p>}
        {found.length === 0 && !isLooking && isWhole && (
          <p>
            <Badge tone="good">none</Badge> No payment is in review or disputed, and no call succeeded after
            its refund was exported.
          </p>
        )}
        {found.length === 0 && !isLooking && !isWhole && (
          <p class="muted">
            {all.every(({ newest }) => newest.data !== undefined)
              ? "None in the payments searched so far."
              : "Payments cannot be read now."}
          </p>
        )}
        <SearchContinuation of={all} />
      </Card>
    </>
  );
}

/** Shows the number of payments in this state, with a link to the list of them. */
function PaymentGroup({
  state,
  of: { payments, isWhole },
}: {
  state: string;
  of: FoundPayments<"api/v1/payments">;
}) {
  if (payments.length === 0) return null;
  return (
    <a href={linkTo(["payments"], { state })}>
      {count(payments.length)}
      {isWhole ? "" : " or more"} {wordsOf(state).word}
    </a>
  );
}

function Row({ payment }: { payment: Payment }) {
  const { call_id, reason, late_at, terms, decimals } = payment;
  const why = reason ?? (late_at === null ? "" : "The runner did the job after the refund was exported.");
  return (
    <li>
      <Badge tone="bad">{wordsOfPayment(payment).word}</Badge>
      <span class="strong">{amountText(terms.amount, terms.symbol, decimals)}</span>
      <span class="cut" title={why}>
        {why}
      </span>
      <a class="button" href={linkTo(["payments", call_id])}>
        {stepOf(payment)}
      </a>
    </li>
  );
}

function isToDecide(payment: Payment): boolean {
  return stepOf(payment) !== undefined;
}

/** Returns the label of the first action that needs an operator; undefined if no such action is possible. */
function stepOf({ actions }: Payment): string | undefined {
  const action = actions.find((each) => each in STEPS);
  return action && STEPS[action];
}

const STEPS: Partial<Record<PaymentAction, string>> = {
  acknowledge: "Acknowledge",
  settle: "Decide",
  "refund-withdraw": "Withdraw refund",
};
