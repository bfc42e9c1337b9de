import { jobKeyOf } from "../../../../shared/call/job-ids.ts";
import type { PaymentDetail } from "../../api/payments.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { Copyable, shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { Facts } from "../../ui/facts.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Time } from "../../ui/time.tsx";
import { linkTo, useRoute } from "../../url-fragment.ts";
import { amountOf } from "./list.tsx";
import { Sentence } from "./sentence.tsx";
import { wordsOfPayment } from "./state-words.ts";
import { PaymentActions } from "./to-do.tsx";

/** Shows one payment: the evidence of the chain and the facilitator, and the decisions of an operator. */
export function PaymentPage() {
  const id = useRoute().path[1] ?? "";
  const answer = useAnswer("api/v1/payments/{call_id}", { call_id: id }, { everyMs: 3000 });
  const { data, refused, reload } = answer;
  return (
    <>
      <PageHead title="Payment" live={<Live answer={answer} />} />
      <div class="call-title">
        <Copyable text={id} />
        {data !== undefined && <State payment={data} />}
        <a href={linkTo(["calls", id])}>View call</a>
      </div>
      {data === undefined && refused?.status === 404 ? (
        <Empty title="Payment not found">{refused.detail}</Empty>
      ) : (
        <StaleNotice answer={answer} />
      )}
      {data !== undefined && <Shown payment={data} onDone={reload} />}
    </>
  );
}

function State({ payment }: { payment: PaymentDetail }) {
  const { word, tone } = wordsOfPayment(payment);
  return <Badge tone={tone}>{word}</Badge>;
}

/**
 * States in which the notice at the top shows the stored reason. In other states the reason is about an earlier step,
 * and is shown only with the evidence.
 */
const STATES_WITH_REASON: readonly string[] = ["settling", "review", "void"];

function Shown({ payment, onDone }: { payment: PaymentDetail; onDone: () => void }) {
  const { terms, reason, state, disputed } = payment;
  const { tone, meaning } = wordsOfPayment(payment);
  return (
    <>
      <div class={`notice ${tone === "accent" ? "" : tone}`}>
        <div>
          <p class="notice-title">{meaning}</p>
          {reason !== null && (disputed || STATES_WITH_REASON.includes(state)) && (
            <div class="notice-text">
              <Sentence text={reason} network={terms.network} />
            </div>
          )}
        </div>
      </div>
      <div class="columns even">
        <div>
          <Card title="Actions">
            <PaymentActions payment={payment} onDone={onDone} />
          </Card>
          <Card title="Evidence">
            <Evidence payment={payment} />
          </Card>
        </div>
        <Card title="Terms">
          <Facts
            facts={[
              ["Amount", <strong>{amountOf(payment)}</strong>],
              ["Payer", <OnChain kind="address" text={terms.payer} network={terms.network} />],
              ["Recipient", <OnChain kind="address" text={terms.pay_to} network={terms.network} />],
              ["Token", <OnChain kind="address" text={terms.asset} network={terms.network} />],
              ["Network", terms.network],
              ["Job", <JobName job={jobKeyOf(terms)} />],
              [
                "Valid until",
                terms.valid_before ? (
                  <Time at={terms.valid_before} form="exact" mayBeAhead />
                ) : (
                  "never expires"
                ),
              ],
              ["Nonce", <Copyable text={terms.nonce} shown={shortened(terms.nonce)} />],
              ["Payment identifier", payment.payment_identifier],
            ]}
          />
        </Card>
      </div>
    </>
  );
}

function Evidence({ payment: { terms, evidence, changed_at, claimed_at } }: { payment: PaymentDetail }) {
  return (
    <>
      <ul class="evidence">
        {evidence.map((sentence) => (
          <li key={sentence}>
            <Sentence text={sentence} network={terms.network} />
          </li>
        ))}
      </ul>
      <Facts
        facts={[
          ["Received", <Time at={claimed_at} form="exact" />],
          ["State since", <Time at={changed_at} form="exact" />],
        ]}
      />
    </>
  );
}
