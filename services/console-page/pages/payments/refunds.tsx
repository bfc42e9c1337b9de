import type { RefundCheck } from "../../../../shared/console/refund-check.ts";
import type { RefundCase } from "../../../../shared/console/refunds.ts";
import { urlOf } from "../../api/ask.ts";
import { useOverview } from "../../api/overview.ts";
import type { PartialSum, RefundTotals } from "../../api/payments.ts";
import { amountsText, amountTexts } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty, type Tone } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";
import { linkTo } from "../../url-fragment.ts";
import { SearchContinuation } from "./further.tsx";
import { amountOf } from "./list.tsx";
import { BeginRun, RunState, useMoneyRuns } from "./money-runs.tsx";
import { wordsOf } from "./state-words.ts";
import { usePaymentSearch } from "./use-found.ts";

const PATH = "api/v1/payments/refunds";
const SHOWN = 200;
const isEnough = (payments: readonly unknown[]) => payments.length >= SHOWN;

/**
 * Shows the refunds for failed and discarded calls: those to export, and those already exported, with a search for them
 * on the chain.
 */
export function RefundsView() {
  const checks = useMoneyRuns("refund-check");
  const turn = Date.parse(checks.newest?.ended_at ?? "") || 0; // a refund that a check has closed is no longer in the list
  const asked = { limit: SHOWN };
  const found = usePaymentSearch(PATH, asked, { everyMs: 30_000, turn, isEnough });
  const byId = new Map(found.payments.map((each) => [each.call_id, each]));
  const due = [...byId.values()].slice(0, SHOWN);
  const overview = useOverview();
  const failing = [found.newest, overview, checks.answer].find(({ refused }) => refused);
  return (
    <>
      {failing !== undefined && <StaleNotice answer={failing} />}
      {overview.data !== undefined && <Totals totals={overview.data.payments.refunds} />}
      <Card title="Refunds" isBare tools={<ReportLink />}>
        {due.length === 0 && found.isLooking && <p class="card-body muted">Loading</p>}
        {due.length === 0 && !found.isLooking && found.isWhole && (
          <Empty title="No refunds">
            A payment is listed here when its call has failed or was discarded.
          </Empty>
        )}
        {due.length === 0 && !found.isLooking && !found.isWhole && (
          <p class="card-body muted">
            {found.newest.data !== undefined
              ? "None in the payments searched so far."
              : "Refunds cannot be read now."}
          </p>
        )}
        {due.length > 0 && <DataTable columns={COLUMNS} items={due} keyOf={({ call_id }) => call_id} />}
        <p class="card-body muted small">
          “Download CSV” only lists the refunds. To pay them, run <code>postern refunds export -o csv</code>,
          which marks them as exported.
        </p>
      </Card>
      {due.length === SHOWN && !found.isWhole && <p class="muted">Only the newest {SHOWN} are listed.</p>}
      <SearchContinuation of={[found]} />
      <Card title="Refund check" tools={<BeginRun runs={checks} verb="Check chain now" />}>
        <p>A check closes each refund whose transfer is on the chain.</p>
        <RunState runs={checks} />
        {checks.newest?.result != null && <Checked check={checks.newest.result} />}
      </Card>
    </>
  );
}

/**
 * Shows how much was paid for calls without an effect, in total for each state of the refund. A total is marked if the
 * console has counted only a part of the payments.
 */
function Totals({ totals: { due, failed, exported } }: { totals: RefundTotals }) {
  return (
    <dl class="totals">
      <Total title="Refunds due" total={due} noteOf={(n) => `${counted(n, "payment")} for discarded calls`} />
      <Total
        title="Replay or refund"
        total={failed}
        noteOf={(n) => `${counted(n, "payment")} for failed calls`}
      />
      <Total
        title="Refunds exported"
        total={exported}
        noteOf={(n) => `${counted(n, "refund")} waiting for a transfer`}
      />
    </dl>
  );
}

type TotalProps = { title: string; total: PartialSum; noteOf: (calls: number) => string };

function Total({ title, total, noteOf }: TotalProps) {
  const { confirmed, unconfirmed, unreadable, is_whole: isWhole } = total;
  const atLeast = isWhole ? "" : "at least ";
  const doubtful = [
    ...(unconfirmed.calls > 0
      ? [
          `plus ${atLeast}${amountsText(unconfirmed.amounts)} for ${counted(unconfirmed.calls, "payment")} not yet confirmed on chain`,
        ]
      : []),
    ...(unreadable > 0 ? [`plus ${atLeast}${counted(unreadable, "unreadable payment")}`] : []),
  ];
  return (
    <div class="tile">
      <dt>{title}</dt>
      {confirmed.calls === 0 && <dd class="tile-value">{isWhole ? "none" : "unknown"}</dd>}
      {amountTexts(confirmed.amounts).map((text) => (
        <dd class={confirmed.amounts.length === 1 ? "tile-value" : "strong"} key={text}>
          {atLeast}
          {text}
        </dd>
      ))}
      <dd class="tile-note muted small">
        {atLeast}
        {noteOf(confirmed.calls)}
      </dd>
      {doubtful.map((words) => (
        <dd class="warn-text small" key={words}>
          {words}
        </dd>
      ))}
    </div>
  );
}

/** Links to a CSV report of all refunds for bookkeeping. Unlike an export, the download does not change the refunds. */
function ReportLink() {
  return (
    <a class="button" href={urlOf(`${PATH}/report`).href} download title="Only lists the refunds">
      Download CSV
    </a>
  );
}

function Checked({ check: { closed, open, not_looked_for: unwatched, problems } }: { check: RefundCheck }) {
  const unseen =
    unwatched.length === 0
      ? ""
      : `, ${unwatched.length} not checked (x402.toml has no rpc_url or no refund_from for the token)`;
  return (
    <>
      <p>
        {counted(closed.length, "refund")} closed, {open.length} not yet on the chain{unseen}.
      </p>
      {problems.map((problem) => (
        <p class="warn-text wrap" key={problem}>
          {problem}
        </p>
      ))}
    </>
  );
}

function JobRan({ payment: { late_at, effect } }: { payment: RefundCase }) {
  if (late_at !== null) return <Badge tone="bad">yes, after the export</Badge>;
  return effect === "none" ? <>no</> : <Badge tone="warn">perhaps</Badge>;
}

/**
 * Words for the obstacles to a refund that concern the payment. Another obstacle is that the job may have run, which
 * its own column shows.
 */
const MONEY: Readonly<Record<string, [words: string, tone: Tone]>> = {
  disputed: ["disputed", "bad"],
  "not confirmed": ["not confirmed", "warn"],
  "zero amount": ["zero amount", "neutral"],
  unreadable: ["unreadable", "bad"],
};

function Money({ payment: { obstacle, contradicted, settlement } }: { payment: RefundCase }) {
  // An exported refund has no obstacle, but its payment may be disputed.
  const known = MONEY[obstacle ?? (contradicted ? "disputed" : "")];
  if (known === undefined)
    return <>{settlement?.by === "operator" ? "confirmed by an operator" : "confirmed"}</>;
  const [words, tone] = known;
  return <Badge tone={tone}>{words}</Badge>;
}

const COLUMNS: readonly Column<RefundCase>[] = [
  {
    title: "Call",
    cell: ({ call_id, terms }) => (
      <>
        <a class="mono nowrap" href={linkTo(["payments", call_id])} title={call_id}>
          {shortened(call_id)}
        </a>
        <span class="step-aside small muted nowrap">
          from <OnChain kind="address" text={terms.payer} network={terms.network} />
        </span>
      </>
    ),
  },
  {
    title: "State",
    cell: ({ state, changed_at }) => (
      <>
        <Badge tone={wordsOf(state).tone}>{wordsOf(state).word}</Badge>
        <span class="step-aside small muted nowrap">
          <Ago at={changed_at} />
        </span>
      </>
    ),
  },
  { title: "Amount", class: "number strong", cell: amountOf },
  { title: "Job ran", cell: (payment) => <JobRan payment={payment} /> },
  { title: "Payment", cell: (payment) => <Money payment={payment} /> },
];
