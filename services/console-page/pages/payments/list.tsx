import { jobKeyOf } from "../../../../shared/call/job-ids.ts";
import { ask } from "../../api/ask.ts";
import { useJobTitle } from "../../api/names.ts";
import type { Payment } from "../../api/payments.ts";
import { usePages } from "../../api/use-pages.ts";
import { amountText } from "../../ui/amount.ts";
import { shortened } from "../../ui/copy.tsx";
import { FilterBar } from "../../ui/filter-bar.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { SinceChoice, useSince } from "../../ui/since.tsx";
import { TextFilter } from "../../ui/text-filter.tsx";
import { Time } from "../../ui/time.tsx";
import { NARROW, useMedia } from "../../ui/use-media.ts";
import { VirtualRows } from "../../ui/virtual-rows.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";
import { ACKNOWLEDGED, DISPUTED, STATES_AND_DISPUTES, wordsOf, wordsOfPayment } from "./state-words.ts";
import { ToDecide } from "./to-decide.tsx";

const AT_ONCE = 100;

/** Those that somebody has to decide about first, then all of them. */
export function PaymentList() {
  return (
    <>
      <ToDecide />
      <AllPayments />
    </>
  );
}

export function amountOf({ terms, decimals }: Payment): string {
  return amountText(terms.amount, terms.symbol, decimals);
}

function AllPayments() {
  const [query, change] = useQuery();
  const state = query.get("state") ?? undefined;
  const filter = {
    ...(state === DISPUTED || state === ACKNOWLEDGED ? { [state]: "true" } : { state }),
    payer: query.get("payer")?.toLowerCase() ?? undefined,
    since: useSince(),
  };
  const list = usePages<Payment>(JSON.stringify(filter), async (cursor, signal) => {
    const asked = { ...filter, cursor, limit: AT_ONCE };
    const { payments, next } = await ask("GET", "api/v1/payments", asked, signal);
    return { items: payments, next };
  });
  const isNarrow = useMedia(NARROW);
  const { items, isLoading, isWhole, refused } = list;
  return (
    <>
      <FilterBar
        isActive={Object.values(filter).some((value) => value !== undefined)}
        onClear={() => change({ state: "", payer: "", since: "" })}
      >
        <label class="filter">
          <span>State</span>
          <select
            value={state ?? ""}
            onChange={({ currentTarget }) => change({ state: currentTarget.value })}
          >
            <option value="">all states</option>
            {STATES_AND_DISPUTES.map((each) => (
              <option key={each} value={each}>
                {wordsOf(each).word}
              </option>
            ))}
          </select>
        </label>
        <TextFilter
          title="Payer"
          placeholder="0x…"
          value={query.get("payer") ?? ""}
          onChange={(payer) => change({ payer })}
        />
        <SinceChoice title="Received" />
      </FilterBar>
      <WhyNot answer={{ ...list, reload: list.again }} title="Payments unavailable" />
      <section class="card" aria-label="Payments" aria-busy={isLoading}>
        <div class="payment-row row-head" aria-hidden="true">
          <span>Call</span>
          <span>State</span>
          <span class="number">Amount</span>
          <span>Payer</span>
          <span>Job</span>
          <span>Received</span>
        </div>
        <VirtualRows
          label="Payments, newest first"
          count={items.length}
          rowHeight={isNarrow ? 64 : 44}
          onEnd={list.more}
          row={(index) => <Row payment={items[index]} />}
        />
        {items.length === 0 && isWhole && !isLoading && refused === undefined && (
          <Empty title="No matching payments">
            A payment is listed once a gateway has verified it and stored its call, before any money moves.
            Prices are under <a href={linkTo(["payments"], { view: "prices" })}>Prices and rates</a>.
          </Empty>
        )}
        {isLoading && <p class="card-body muted">Loading</p>}
      </section>
    </>
  );
}

function Row({ payment }: { payment: Payment | undefined }) {
  const titleOfJob = useJobTitle();
  if (payment === undefined) return null;
  const { call_id, terms, claimed_at } = payment;
  const { word, tone } = wordsOfPayment(payment);
  return (
    <div class="payment-row">
      <a href={linkTo(["payments", call_id])} class="mono" title={call_id}>
        {shortened(call_id)}
      </a>
      <span>
        <Badge tone={tone}>{word}</Badge>
      </span>
      <span class="number">{amountOf(payment)}</span>
      <span class="mono" title={terms.payer}>
        {shortened(terms.payer, 8, 4)}
      </span>
      <span class="job-cell" title={titleOfJob(jobKeyOf(terms))}>
        {titleOfJob(jobKeyOf(terms))}
      </span>
      <Time at={claimed_at} />
    </div>
  );
}
