import { useState } from "preact/hooks";
import { jobKeyOf } from "../../../../shared/call/job-ids.ts";
import { request } from "../../api/ask.ts";
import { useJobTitle } from "../../api/names.ts";
import type { Payment } from "../../api/payments.ts";
import { useMayOperate } from "../../api/session.ts";
import { usePages } from "../../api/use-pages.ts";
import { amountText } from "../../ui/amount.ts";
import { shortened } from "../../ui/copy.tsx";
import { FilterBar } from "../../ui/filter-bar.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { SelectAll, type Selection, useSelection } from "../../ui/selection.tsx";
import { SinceChoice, useSince } from "../../ui/since.tsx";
import { TextFilter } from "../../ui/text-filter.tsx";
import { Time } from "../../ui/time.tsx";
import { NARROW, useMedia } from "../../ui/use-media.ts";
import { VirtualRows } from "../../ui/virtual-rows.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";
import { AcknowledgeDialog } from "./acknowledge.tsx";
import { ACKNOWLEDGED, DISPUTED, STATES_AND_DISPUTES, wordsOf, wordsOfPayment } from "./state-words.ts";
import { ToDecide } from "./to-decide.tsx";

const AT_ONCE = 100;

/** Lists the payments that an operator must decide about, and then all payments. */
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
    const { payments, next } = await request("GET", "api/v1/payments", asked, signal);
    return { items: payments, next };
  });
  const isNarrow = useMedia(NARROW);
  const mayOperate = useMayOperate();
  const selection = useSelection(
    JSON.stringify(filter),
    list.items.map(({ call_id }) => call_id),
  );
  const isChoosing = state === DISPUTED && mayOperate;
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
      <StaleNotice answer={{ ...list, reload: list.again }} title="Payments unavailable" />
      <section class="card" aria-label="Payments" aria-busy={isLoading}>
        {isChoosing && <Choice selection={selection} listed={items.length} onDone={list.reload} />}
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
          row={(index) => <Row payment={items[index]} selection={isChoosing ? selection : undefined} />}
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

type ChoiceProps = { selection: Selection; listed: number; onDone: () => void };

/**
 * Shows the number of selected disputed payments, and the button that acknowledges them. It stays visible while the
 * list scrolls.
 */
function Choice({ selection, listed, onDone }: ChoiceProps) {
  const [ids, setIds] = useState<readonly string[] | undefined>();
  const { selected, clear } = selection;
  const some = selected.size > 0;
  const close = () => setIds(undefined);
  const end = () => {
    close();
    clear();
    onDone();
  };
  return (
    <div class="card-head choice">
      <SelectAll selection={selection} listed={listed} of="payments" />
      <h2 aria-live="polite">{some ? `${count(selected.size)} selected` : "Disputed payments"}</h2>
      {some && (
        <button type="button" class="link" onClick={clear}>
          Clear selection
        </button>
      )}
      <div class="buttons">
        <button type="button" class="primary" disabled={!some} onClick={() => setIds([...selected])}>
          Acknowledge{some && ` ${count(selected.size)}`}…
        </button>
      </div>
      {ids !== undefined && <AcknowledgeDialog ids={ids} onCancel={close} onDone={end} />}
    </div>
  );
}

type RowProps = { payment: Payment | undefined; selection: Selection | undefined };

/** Shows one payment. With `selection` the row can be selected. */
function Row({ payment, selection }: RowProps) {
  const titleOfJob = useJobTitle();
  if (payment === undefined) return null;
  const { call_id, terms, claimed_at } = payment;
  const { word, tone } = wordsOfPayment(payment);
  const isSelected = selection?.selected.has(call_id) === true;
  return (
    <div class={`payment-row ${isSelected ? "chosen" : ""}`}>
      <span class="check">
        {selection !== undefined && (
          <input
            type="checkbox"
            checked={isSelected}
            onClick={({ shiftKey }) => selection.toggle(call_id, shiftKey)}
            aria-label={`Select ${call_id}`}
          />
        )}
        <a href={linkTo(["payments", call_id])} class="mono" title={call_id}>
          {selection === undefined ? shortened(call_id) : shortened(call_id, 8, 4)}
        </a>
      </span>
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
