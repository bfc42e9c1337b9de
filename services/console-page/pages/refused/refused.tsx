import { useState } from "preact/hooks";
import { adviceFor } from "../../../../shared/webhook-auth/advice.ts";
import type { Rejected } from "../../api/jobs.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { useBytes } from "../../api/use-bytes.ts";
import { BodyView } from "../../ui/body-view.tsx";
import { Card } from "../../ui/card.tsx";
import { Copyable } from "../../ui/copy.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Facts } from "../../ui/facts.tsx";
import { FilterBar } from "../../ui/filter-bar.tsx";
import { joinAnswers, Live, StaleNotice } from "../../ui/live.tsx";
import { Empty, Notice } from "../../ui/notice.tsx";
import { bytes, counted } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { TextFilter } from "../../ui/text-filter.tsx";
import { Time } from "../../ui/time.tsx";
import { titleOf, Why } from "../../ui/why.tsx";
import { useQuery } from "../../url-fragment.ts";
import { RefusedGroups } from "./groups.tsx";

const SHOWN = 200;

/** Query parameters with which no filter applies. */
const ALL = { endpoint: "", unknown: "", code: "", reason: "" };

/**
 * Page with refused webhooks: their number for each endpoint and reason, and a list of the newest requests that match
 * the filter.
 */
export function RefusedPage() {
  const [query, change] = useQuery();
  const given = (name: keyof typeof ALL) => query.get(name) ?? undefined;
  const filter = {
    endpoint: given("endpoint"),
    unknown: given("unknown"),
    code: given("code"),
    reason: given("reason"),
  };
  const { endpoint } = filter;
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  // A chosen group sets `code`. Then the groups are not filtered, so that all of them stay visible.
  const ofGroups = { endpoint: filter.code === undefined ? endpoint : undefined };
  const groups = useAnswer("api/v1/rejected/groups", ofGroups, { everyMs: 5000 });
  const answer = useAnswer("api/v1/rejected", { ...filter, limit: SHOWN }, { everyMs: 5000 });
  const found = groups.isCurrent ? groups.data?.groups : undefined;
  const [shown, show] = useState<Rejected | undefined>();
  const requests = answer.data?.requests;
  const close = () => {
    show(undefined);
    change({ id: "" });
  };
  const opened = shown ?? requests?.find(({ id }) => id === query.get("id"));
  const columns: Column<Rejected>[] = [
    {
      title: "Reason",
      class: "whole",
      cell: (request) => (
        <button type="button" class="row-button" onClick={() => show(request)}>
          <Why code={request.code} reason={request.reason} />
        </button>
      ),
    },
    {
      title: "Request",
      class: "cut path",
      hint: (request) => request.path,
      cell: (request) => `${request.method} ${request.path}`,
    },
    {
      title: "Delivery",
      class: "cut wide mono",
      hint: ({ delivery_id }) => delivery_id ?? "",
      cell: ({ delivery_id }) => delivery_id,
    },
    { title: "Address", class: "wide mono", cell: ({ address }) => address },
    { title: "Refused", class: "number", cell: ({ refused_at }) => <Time at={refused_at} /> },
  ];
  return (
    <>
      <PageHead title="Refused requests" live={<Live answer={joinAnswers([groups, answer])} />} />
      <StaleNotice answer={answer} />
      <FilterBar isActive={isFiltered} onClear={() => change(ALL)}>
        <TextFilter
          title="Endpoint"
          placeholder="/hooks/…"
          value={endpoint ?? ""}
          onChange={(entered) => change({ ...ALL, endpoint: entered })}
        />
      </FilterBar>
      {found !== undefined && found.length > 0 && <RefusedGroups groups={found} />}
      <Card
        title={answer.data === undefined ? "Refused requests" : counted(answer.data.count, "refused request")}
        isBare
      >
        {requests?.length === 0 && (
          <Empty title={isFiltered ? "No matching refused requests" : "No refused requests"}>
            The newest 500 refused requests are kept, for at most 7 days. Of header values, only the delivery
            id is kept. During a flood, only some of them are kept.
          </Empty>
        )}
        {requests !== undefined && requests.length > 0 && (
          <DataTable columns={columns} items={requests} keyOf={({ id }) => id} />
        )}
      </Card>
      {answer.data?.next != null && <p class="muted">Only the newest {SHOWN} are listed.</p>}
      <p class="muted small">
        A 503 is listed only if its endpoint is disabled. Others, such as those of a full queue, count as
        refused on the other pages.
      </p>
      {opened !== undefined && <RejectedDialog request={opened} onClose={close} />}
    </>
  );
}

function RejectedDialog({ request, onClose }: { request: Rejected; onClose: () => void }) {
  const { id, code, reason, signature_headers: signatures, missed_before } = request;
  const advice = adviceFor(request);
  const { body, refused, isBusy, load } = useBytes("api/v1/rejected/{rejected_id}/body", { rejected_id: id });
  return (
    <Dialog title={titleOf(code)} onClose={onClose}>
      <p class="wrap">{advice === undefined ? reason : `${sentence(advice.says)} (${reason}).`}</p>
      {advice !== undefined && <p class="wrap muted">{advice.todo}</p>}
      <Facts
        facts={[
          ["Refused", <Time at={request.refused_at} form="exact" />],
          ["Id", <span class="mono">{id}</span>],
          ["Code", <code>{code}</code>],
          ["Endpoint", request.endpoint ?? "not configured"],
          ["Request", <span class="mono">{`${request.method} ${request.path}`}</span>],
          ["Delivery", request.delivery_id === null ? undefined : <Copyable text={request.delivery_id} />],
          ["Query", request.query_names.join(", ")],
          ["Address", <span class="mono">{request.address}</span>],
          ["Credential found", namesOf(signatures.came)],
          ["Credential expected", namesOf(signatures.wanted)],
          ["Headers", request.header_names.join(", ")],
          ["Size", request.bytes === null ? "unknown" : bytes(request.bytes)],
          ["Not kept", missed_before > 0 ? counted(missed_before, "earlier request") : undefined],
        ]}
      />
      {body === undefined && (
        <div>
          <button type="button" onClick={load} disabled={isBusy}>
            Show body, if kept
          </button>
        </div>
      )}
      {body !== undefined && <BodyView body={body} label="body" file={id} />}
      {refused !== undefined && (
        <Notice
          {...(refused.code === "rejected.no_body"
            ? { tone: "neutral", title: "Body not kept" }
            : { tone: "warn", title: "Body unavailable" })}
        >
          {refused.detail}
        </Notice>
      )}
    </Dialog>
  );
}

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function namesOf(names: readonly string[] | null): string | undefined {
  return names === null ? undefined : names.length === 0 ? "none" : names.join(", ");
}
