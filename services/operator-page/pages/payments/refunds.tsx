import type { RefundCase } from "../../api/payments.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { linkTo } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";
import { amountOf } from "./list.tsx";
import { wordsOf } from "./words.ts";

/** What was paid and failed for good, and what of it is on its way back. */
export function RefundsView() {
  const answer = useAnswer<{ payments: RefundCase[] }>(
    "api/v1/payments/refunds",
    { limit: 500 },
    { everyMs: 30_000 },
  );
  const due = answer.data?.payments;
  return (
    <>
      <WhyNot answer={answer} />
      <Card title="Refunds due" isBare>
        {due?.length === 0 && (
          <Empty title="No refund is due">A payment is listed here when its call has failed for good.</Empty>
        )}
        {due !== undefined && due.length > 0 && (
          <div class="table-box">
            <table class="stack">
              <thead>
                <tr>
                  <th scope="col">Call</th>
                  <th scope="col">State</th>
                  <th scope="col" class="number">
                    Amount
                  </th>
                  <th scope="col">Payer</th>
                  <th scope="col">Did the job have an effect?</th>
                  <th scope="col" class="number">
                    Since
                  </th>
                </tr>
              </thead>
              <tbody>
                {due.map((payment) => (
                  <Row key={payment.call_id} payment={payment} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      <p class="muted small">
        Exporting refunds needs the wallet that pays them: <code>postern payments refund-list --csv</code>{" "}
        writes the file for it, and <code>postern payments refund-check</code> closes what the chain shows as
        paid back.
      </p>
    </>
  );
}

function Row({ payment }: { payment: RefundCase }) {
  const { call_id, state, terms, effect, changed_at } = payment;
  const { word, tone } = wordsOf(state);
  return (
    <tr>
      <td>
        <a class="mono" href={linkTo(["payments", call_id])} title={call_id}>
          {shortened(call_id)}
        </a>
      </td>
      <td data-label="State">
        <Badge tone={tone}>{word}</Badge>
      </td>
      <td class="number strong" data-label="Amount">
        {amountOf(payment)}
      </td>
      <td data-label="Payer">
        <OnChain kind="address" text={terms.payer} network={terms.network} />
      </td>
      <td data-label="Effect of the job">
        {effect === "none" ? "no, for certain" : <Badge tone="warn">it may have</Badge>}
      </td>
      <td class="number" data-label="Since">
        <Ago at={changed_at} />
      </td>
    </tr>
  );
}
