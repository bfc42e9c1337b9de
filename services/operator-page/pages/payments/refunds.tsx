import type { Payment } from "../../api/payments.ts";
import { linkTo } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";
import { Further } from "./further.tsx";
import { amountOf } from "./list.tsx";
import { BeginRun, RunState, useMoneyRuns } from "./money-runs.tsx";
import { useFound } from "./use-found.ts";
import { wordsOf } from "./words.ts";

const PATH = "api/v1/payments/refunds";
const SHOWN = 200;
const isEnough = (payments: readonly unknown[]) => payments.length >= SHOWN;

/** Beside the payment, why it is not simply to be paid back. */
type RefundCase = Payment & { obstacle: string | null };

type Check = { closed: unknown[]; open: unknown[]; not_looked_for: string[]; problems: string[] };

/** What was paid and failed for good, and what of it is on its way back. */
export function RefundsView() {
  const checks = useMoneyRuns<Check>("api/v1/payments/refund-checks");
  const turn = Date.parse(checks.newest?.ended_at ?? "") || 0; // what a look has closed is gone from the list
  const asked = { limit: SHOWN };
  const found = useFound<RefundCase>(PATH, asked, { everyMs: 30_000, turn, isEnough });
  const byId = new Map(found.payments.map((each) => [each.call_id, each]));
  const due = [...byId.values()].slice(0, SHOWN);
  return (
    <>
      <WhyNot answer={found.newest} />
      <Card title="Refunds due" isBare>
        {due.length === 0 && found.isLooking && <p class="card-body muted">Looking</p>}
        {due.length === 0 && !found.isLooking && found.isWhole && (
          <Empty title="No refund is due">A payment is listed here when its call has failed for good.</Empty>
        )}
        {due.length > 0 && (
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
      {due.length === SHOWN && !found.isWhole && <p class="muted">The {SHOWN} newest are listed.</p>}
      <Further of={[found]} />
      <Card title="Paid back" tools={<BeginRun runs={checks} verb="Look on the chain now" />}>
        <p>
          <code>postern payments refund-list --csv</code> exports refunds for the wallet that pays them. Once
          a transfer is on the chain, a look closes its case.
        </p>
        {checks.newest !== null && <RunState runs={checks} />}
        {checks.newest?.result != null && <Checked check={checks.newest.result} />}
      </Card>
    </>
  );
}

function Checked({ check: { closed, open, not_looked_for: unwatched, problems } }: { check: Check }) {
  const unseen = unwatched.length === 0 ? "" : `, ${unwatched.length} of a token without a node or a sender`;
  return (
    <>
      <p>
        {counted(closed.length, "case")} closed, {open.length} not paid back yet{unseen}.
      </p>
      {problems.map((problem) => (
        <p class="warn-text wrap" key={problem}>
          {problem}
        </p>
      ))}
    </>
  );
}

function Row({ payment }: { payment: RefundCase }) {
  const { call_id, state, terms, effect, changed_at, obstacle, late_at } = payment;
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
        {late_at !== null && <span class="step-aside small warn-text">its runner has done it since</span>}
      </td>
      <td class="number strong" data-label="Amount">
        {amountOf(payment)}
      </td>
      <td data-label="Payer">
        <OnChain kind="address" text={terms.payer} network={terms.network} />
      </td>
      <td data-label="Effect of the job">
        {effect === "none" ? "no, for certain" : <Badge tone="warn">it may have</Badge>}
        {obstacle !== null && <span class="step-aside small muted">{obstacle}</span>}
      </td>
      <td class="number" data-label="Since">
        <Ago at={changed_at} />
      </td>
    </tr>
  );
}
