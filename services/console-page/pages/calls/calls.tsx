import { useEffect, useRef, useState } from "preact/hooks";
import { problemOfText } from "../../../../shared/call/search-text.ts";
import { request } from "../../api/ask.ts";
import type { FoundCall } from "../../api/calls.ts";
import type { Rejected } from "../../api/jobs.ts";
import { useJobTitle } from "../../api/names.ts";
import { usePages } from "../../api/use-pages.ts";
import { shortened } from "../../ui/copy.tsx";
import { Icon } from "../../ui/icons.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Empty, Notice } from "../../ui/notice.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { SinceChoice, useSince } from "../../ui/since.tsx";
import { Time } from "../../ui/time.tsx";
import { NARROW, useMedia } from "../../ui/use-media.ts";
import { VirtualRows } from "../../ui/virtual-rows.tsx";
import { problemWords } from "../../ui/why.tsx";
import { goTo, linkTo, useQuery } from "../../url-fragment.ts";
import { Facets, useFacetFilters } from "./facets.tsx";
import { Newer } from "./newer.tsx";
import { RefusedNotice } from "./refused-notice.tsx";
import { CallState, STATE_CHOICES } from "./state.tsx";
import { toSearch, useWindow, WindowChip } from "./window.tsx";

const AT_ONCE = 100;

/** Page on which the user searches for calls: by a text such as an id, and by properties such as the state or the time. */
export function CallsPage() {
  const [query, change] = useQuery();
  const window = useWindow();
  const search = {
    q: query.get("q") || undefined,
    ...useFacetFilters(),
    origin: query.get("origin") ?? undefined,
    since: useSince(),
    ...(window && toSearch(window)),
  };
  const [gap, setGap] = useState<keyof typeof GAPS | undefined>();
  const [rejected, setRejected] = useState<readonly Rejected[]>([]);
  const list = usePages<FoundCall>(JSON.stringify(search), async (cursor, signal) => {
    const asked = { ...search, cursor, limit: AT_ONCE };
    const found = await request("GET", "api/v1/calls", asked, signal);
    setGap(found.is_complete ? undefined : found.is_unlisted ? "unlisted" : "cut");
    if (cursor === undefined) setRejected(found.rejected);
    return { items: found.calls, next: found.next };
  });
  const isNarrow = useMedia(NARROW);
  const { items, isLoading, refused } = list;
  const [isLive, setLive] = useState(false);
  const [turn, setTurn] = useState(0);
  const refresh = () => {
    list.reload();
    setTurn((before) => before + 1);
  };
  const hasSearch = Object.values(search).some((value) => value !== undefined);
  return (
    <>
      <PageHead title="Calls">
        {window !== undefined && <WindowChip window={window} />}
        {search.origin !== undefined && (
          <button type="button" onClick={() => change({ origin: "" })}>
            Origin {search.origin}: show all
          </button>
        )}
        <Newer {...{ search, list, isLive, setLive, refresh }} />
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </PageHead>
      <Search />
      <StaleNotice answer={{ ...list, reload: list.again }} title="Search failed" />
      <RefusedNotice requests={rejected} />
      <div class="with-facets">
        <Facets search={search} turn={turn} isLive={isLive} />
        <section class="card" aria-label="Search results" aria-busy={isLoading}>
          <div class="call-row row-head" aria-hidden="true">
            <span>Call</span>
            <span>State</span>
            <span>Origin</span>
            <span>Job</span>
            <span>Details</span>
            <span>Updated</span>
          </div>
          <VirtualRows
            label="Calls, newest first"
            count={items.length}
            rowHeight={isNarrow ? 76 : 44}
            onEnd={list.more}
            row={(index) => <Row call={items[index]} />}
          />
          {items.length === 0 && !isLoading && refused === undefined && (
            <NothingFound hasSearch={hasSearch} />
          )}
          {isLoading && <p class="card-body muted">Searching</p>}
        </section>
      </div>
      {gap !== undefined && !isLoading && (
        <Notice tone="warn" title="Results may be incomplete">
          {GAPS[gap]}
        </Notice>
      )}
    </>
  );
}

/** Reasons why a search may have missed matching calls. */
const GAPS = {
  unlisted: "A webhook call in this state may be found only by its call id, or by its delivery id.",
  cut: "The search stopped before it had checked every call. To find the rest, narrow the search, for example by job or time.",
} as const;

/** Search form: one field for an id or another text, and further fields that narrow the search. */
function Search() {
  const [query, change] = useQuery();
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(query.get("q") ?? "");
  const given = query.get("q") ?? "";
  useEffect(() => setText(given), [given]);
  useEffect(() => {
    if (query.get("focus") === null) return;
    field.current?.focus();
    change({ focus: "" });
  }, [query, change]);

  const problem = text.trim() === "" ? undefined : problemOfText(text);
  const submit = (event: Event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (problem !== undefined) return;
    if (/^c_[0-9a-f]{32}$/i.test(wanted)) goTo(linkTo(["calls", wanted.toLowerCase()]));
    else change({ q: wanted });
    // Removes the focus, so that the keys `j` and `k` move through the results.
    field.current?.blur();
  };
  return (
    <search>
      <form class="filters" onSubmit={submit}>
        <div class="filter search">
          <label for="q">Id, job, payer, transaction, event type, endpoint or error</label>
          <div class="search-box">
            <Icon name="search" />
            <input
              id="q"
              ref={field}
              type="search"
              autocomplete="off"
              spellcheck={false}
              placeholder="Search calls, then Enter"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
              aria-invalid={problem !== undefined}
              aria-describedby="q-problem"
            />
            <span class="kbd" aria-hidden="true">
              /
            </span>
          </div>
          <p id="q-problem" class="small" aria-live="polite">
            {problem === undefined ? "" : `The search ${problem}.`}
          </p>
        </div>
        <label class="filter">
          <span>State</span>
          <select
            value={query.get("state") ?? ""}
            onChange={({ currentTarget }) => change({ state: currentTarget.value })}
          >
            <option value="">all but discarded or void</option>
            {STATE_CHOICES.map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <SinceChoice title="Updated" />
      </form>
    </search>
  );
}

function Row({ call }: { call: FoundCall | undefined }) {
  const titleOfJob = useJobTitle();
  if (call === undefined) return null;
  const { id, state, at, origin, endpoint, job } = call;
  return (
    <div class="call-row">
      <a href={linkTo(["calls", id])} class="mono" title={id}>
        {shortened(id)}
      </a>
      <span>
        <CallState state={state} />
      </span>
      <span class="cut" title={endpoint ?? origin ?? ""}>
        {endpoint ?? origin ?? ""}
      </span>
      <span class="job-cell" title={job ? titleOfJob(job) : ""}>
        <span class="label">job </span>
        {job && titleOfJob(job)}
      </span>
      <span class="cut muted" title={detailOf(call)}>
        {detailOf(call)}
      </span>
      <Time at={at} />
    </div>
  );
}

/** Returns the last error of the call. Without an error, returns its payer or the sender's id of its delivery. */
function detailOf({ state, code, reason, transaction, payer, delivery_id }: FoundCall): string {
  if (code !== null) return `${state === "failed" ? "" : "Last error: "}${problemWords(code, reason ?? "")}`;
  if (payer !== null)
    return `paid by ${shortened(payer, 8, 4)}${transaction === null ? "" : `, ${shortened(transaction, 8, 4)}`}`;
  return delivery_id === null ? (reason ?? "") : `delivery ${delivery_id}`;
}

function NothingFound({ hasSearch }: { hasSearch: boolean }) {
  if (!hasSearch) {
    return (
      <Empty title="No calls yet">
        Send one to an endpoint, for example with <code>postern send</code>. A call stays listed for one day
        after the runner has answered 2xx, unless <code>[console] history_secs</code> in{" "}
        <code>postern.toml</code> says otherwise.
      </Empty>
    );
  }
  return (
    <Empty title="No calls found">
      Check the spelling and the state. A refused request is no call: it is listed under{" "}
      <a href={linkTo(["refused"])}>Refused requests</a>. A call that ended long ago is no longer listed (
      <code>[console] history_secs</code> in <code>postern.toml</code>, by default one day).
    </Empty>
  );
}
