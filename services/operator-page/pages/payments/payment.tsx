import { useState } from "preact/hooks";
import type { PaymentDetail } from "../../api/payments.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { linkTo, useRoute } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { Copyable, shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { Facts } from "../../ui/facts.tsx";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Time } from "../../ui/time.tsx";
import { amountOf } from "./list.tsx";
import { ResolveDialog } from "./resolve.tsx";
import { wordsOf } from "./words.ts";

/** One payment: what the chain and the facilitator say of it, and what somebody can decide. */
export function PaymentPage() {
  const id = useRoute().path[1] ?? "";
  const answer = useAnswer<PaymentDetail>(`api/v1/payments/${encodeURIComponent(id)}`, {}, { everyMs: 3000 });
  const { data, refused, reload } = answer;
  const mayOperate = useMayOperate();
  const [isOpen, setOpen] = useState(false);
  const isUndecided = data !== undefined && (data.state === "review" || data.disputed);
  const close = () => {
    setOpen(false);
    reload();
  };
  return (
    <>
      <PageHead title="Payment" live={<Live answer={answer} />}>
        {mayOperate && isUndecided && (
          <button type="button" class="primary" onClick={() => setOpen(true)}>
            {data.disputed ? "Acknowledge…" : "Decide…"}
          </button>
        )}
      </PageHead>
      <div class="call-title">
        <Copyable text={id} />
        {data !== undefined && <State payment={data} />}
        <a href={linkTo(["calls", id])}>The life of its call</a>
      </div>
      {refused?.status === 404 ? (
        <Empty title="Nothing is known of this payment">{refused.detail}</Empty>
      ) : (
        <WhyNot answer={answer} />
      )}
      {data !== undefined && <Shown payment={data} />}
      {isOpen && data !== undefined && <ResolveDialog payment={data} onClose={close} />}
    </>
  );
}

function State({ payment: { state, disputed } }: { payment: PaymentDetail }) {
  const { word, tone } = wordsOf(state);
  return (
    <>
      <Badge tone={tone}>{word}</Badge>
      {disputed && <Badge tone="bad">disputed</Badge>}
    </>
  );
}

function Shown({ payment }: { payment: PaymentDetail }) {
  const { terms, reason, state, disputed } = payment;
  const { tone, meaning } = wordsOf(state);
  const words = disputed
    ? "It counts as paid, and the chain contradicts it since. Its call was given to the runner. Look at the transaction, and acknowledge it."
    : meaning;
  return (
    <>
      <div class={`notice ${disputed ? "bad" : tone === "accent" ? "" : tone}`}>
        <div>
          <p class="notice-title">{words}</p>
          {reason !== null && <div class="notice-text">{reason}</div>}
        </div>
      </div>
      <div class="columns even">
        <Card title="Evidence">
          <Evidence payment={payment} />
        </Card>
        <Card title="Terms">
          <Facts
            facts={[
              ["Amount", <strong>{amountOf(payment)}</strong>],
              ["Payer", <OnChain kind="address" text={terms.payer} network={terms.network} />],
              ["Paid to", <OnChain kind="address" text={terms.pay_to} network={terms.network} />],
              ["Token", <OnChain kind="address" text={terms.asset} network={terms.network} />],
              ["Network", terms.network],
              ["Job", `${terms.service_id}/${terms.job_index}`],
              ["Valid until", <SignedTime seconds={terms.valid_before} />],
              ["Nonce", <Copyable text={terms.nonce} shown={shortened(terms.nonce)} />],
              ["Client's id", payment.payment_identifier],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

/** Payers may sign any number, also one that is no time. */
function SignedTime({ seconds }: { seconds: string }) {
  const ms = Number(seconds) * 1000;
  return ms <= 8.64e15 ? <Time at={ms} form="exact" /> : <>{seconds} s</>;
}

function Evidence({ payment }: { payment: PaymentDetail }) {
  const { terms, settlement, proven, dispatches, facilitator, since_block, effect } = payment;
  const { decided, acknowledged, refund, refunded, late_at } = payment;
  const isOver = ["failed", "discarded", "refund_pending", "refunded"].includes(payment.state);
  return (
    <Facts
      facts={[
        ["Since", <Time at={payment.changed_at} form="exact" />],
        ["Claimed", <Time at={payment.claimed_at} form="exact" />],
        ["Sent to settle", `${dispatches === 1 ? "once" : `${dispatches} times`}, to ${facilitator}`],
        ["Last sent", <Time at={payment.dispatched_at} form="exact" />],
        [
          "Transaction",
          settlement && <OnChain kind="tx" text={settlement.transaction} network={terms.network} />,
        ],
        ["Said by", settlement && `the ${settlement.by}`],
        ["On the chain", settlement && (proven ? "shown, at the configured depth" : "not shown (yet)")],
        ["Searched from", since_block === "0" ? "no chain was asked" : `block ${since_block}`],
        ["Effect of the job", isOver ? EFFECT[effect] : undefined],
        ["Decided", decided && `by ${decided.by}: ${decided.reason}`],
        ["Acknowledged", acknowledged && `by ${acknowledged.by}: ${acknowledged.reason}`],
        ["Refund exported", refund && `${refund.export}, at block ${refund.block}`],
        [
          "Paid back by",
          refunded && <OnChain kind="tx" text={refunded.transaction} network={terms.network} />,
        ],
        ["Delivered late", late_at === null ? undefined : <Time at={late_at} form="exact" />],
      ]}
    />
  );
}

const EFFECT = {
  none: "none: each attempt was refused, or never reached the runner",
  unknown: "unknown: an attempt may have done the job",
} as const;
