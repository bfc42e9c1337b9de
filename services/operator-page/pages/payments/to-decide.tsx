import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../../api/ask.ts";
import type { Payment, PaymentAction, PaymentPage } from "../../api/payments.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { usePages } from "../../api/use-pages.ts";
import { linkTo, type Query } from "../../route.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { DISPUTED, wordsOf } from "./words.ts";

const SHOWN = 50;

/** So many answers are asked for by themselves, of 10,000 payments each. */
const LOOKS_MAX = 20;

/** What only somebody can decide: all payments with such an action, however old. */
export function ToDecide() {
  const inReview = usePaymentsThat({ state: "review" }, 10_000);
  const disputed = usePaymentsThat({ disputed: "true" }, 30_000);
  const refunding = usePaymentsThat({ state: "refund_pending" }, 30_000);
  const all = [inReview, disputed, refunding];
  const byId = new Map(all.flatMap(({ payments }) => payments.map((each) => [each.call_id, each])));
  const found = [...byId.values()].filter((payment) => stepOf(payment) !== undefined).slice(0, SHOWN);
  const isWhole = all.every((each) => each.isWhole);
  const isLooking = all.some((each) => each.isLooking);
  return (
    <>
      {all.map(({ newest }, i) => (
        <WhyNot key={LOOKED_FOR[i]} answer={newest} />
      ))}
      <Card
        title="To be decided"
        isBare={found.length > 0}
        tools={
          <>
            <Listed state="review" of={inReview} />
            <Listed state={DISPUTED} of={disputed} />
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
        {found.length === 0 && isLooking && <p class="muted">Looking</p>}
        {found.length === 0 && !isLooking && isWhole && (
          <p>
            <Badge tone="good">none</Badge> No payment is in review, none is disputed, and no refund is on its
            way for a job that was done.
          </p>
        )}
        {!isLooking && !isWhole && <Further of={all} />}
      </Card>
    </>
  );
}

const LOOKED_FOR = ["review", "disputed", "refunding"];

/** Its payments as a list of their own, below. */
function Listed({ state, of: { payments, isWhole } }: { state: string; of: Found }) {
  if (payments.length === 0) return null;
  return (
    <a href={linkTo(["payments"], { state })}>
      {count(payments.length)}
      {isWhole ? "" : " or more"} {wordsOf(state).word}
    </a>
  );
}

function Row({ payment }: { payment: Payment }) {
  const { call_id, state, disputed, reason, late_at, terms, decimals } = payment;
  const why =
    reason ?? (late_at === null ? "" : "The runner has done its job although its refund was exported.");
  return (
    <li>
      <Badge tone="bad">{wordsOf(disputed ? DISPUTED : state).word}</Badge>
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

/** What nobody but an operator can do, by the first of such actions; undefined if there is none. */
function stepOf({ actions }: Payment): string | undefined {
  const action = actions.find((each) => each in STEPS);
  return action && STEPS[action];
}

const STEPS: Partial<Record<PaymentAction, string>> = {
  acknowledge: "Look and acknowledge",
  settle: "Look and decide",
  "refund-withdraw": "Look and withdraw",
};

function Further({ of: all }: { of: readonly Found[] }) {
  return (
    <p class="muted further">
      Older payments were not looked at yet.{" "}
      <button type="button" onClick={() => all.map(({ lookFurther }) => lookFurther())}>
        Look further
      </button>
    </p>
  );
}

type Found = {
  payments: Payment[];
  newest: Answer<PaymentPage>;
  /** Whether all payments were looked at. */
  isWhole: boolean;
  isLooking: boolean;
  lookFurther(): void;
};

/**
 * The payments that match: the newest are asked for again and again, and what is older once. An answer looks at so many payments and no
 * more, so that even one without a payment may not be the last.
 */
function usePaymentsThat(match: Query, everyMs: number): Found {
  const asked = { ...match, limit: SHOWN };
  const newest = useAnswer<PaymentPage>("api/v1/payments", asked, { everyMs });
  const [from, setFrom] = useState<string | undefined>();
  const next = newest.data?.next;
  useEffect(() => {
    if (from === undefined && typeof next === "string") setFrom(next);
  }, [from, next]);

  const [most, setMost] = useState(LOOKS_MAX);
  const looks = useRef(0);
  const older = usePages<Payment>(from ?? "", async (cursor, signal) => {
    if (from === undefined) return { items: [], next: null };
    looks.current += 1;
    const query = { ...asked, cursor: cursor ?? from };
    const page = await ask<PaymentPage>("GET", "api/v1/payments", { query, signal });
    return { items: page.payments, next: page.next };
  });
  const { items, isWhole, isLoading, refused, more } = older;
  const decidable = items.filter((payment) => stepOf(payment) !== undefined);
  const goesOn = !isWhole && refused === undefined && looks.current < most && decidable.length < SHOWN;
  useEffect(() => {
    if (goesOn && !isLoading) more();
  }, [goesOn, isLoading, more]);

  return {
    payments: [...(newest.data?.payments ?? []), ...items],
    newest,
    isWhole: newest.data !== undefined && (typeof next !== "string" || (from !== undefined && isWhole)),
    isLooking: (newest.data === undefined && newest.refused === undefined) || isLoading || goesOn,
    lookFurther: () => setMost(looks.current + LOOKS_MAX),
  };
}
