import type { AuditEntryView as AuditEntry } from "../../../../shared/console/audit-trail.ts";
import { request } from "../../api/ask.ts";
import { usePages } from "../../api/use-pages.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty, type Tone } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { Time } from "../../ui/time.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";
import { mergeBulkEntries } from "./merged.ts";

const AT_ONCE = 100;

const STREAMS = [
  { value: "", name: "All changes" },
  { value: "money", name: "Money only" },
  { value: "reads", name: "Reads" },
] as const;

/**
 * Lists the acts of operators, newest first. All lines of a bulk operation are one row, with a link to the lines of its
 * calls.
 */
export function AuditLogPage() {
  const [asked, change] = useQuery();
  const stream = STREAMS.find(({ value }) => value === asked.get("stream"))?.value ?? "";
  const run = asked.get("run") ?? undefined;
  const list = usePages<AuditEntry>(JSON.stringify([stream, run]), async (cursor, signal) => {
    const query = { cursor, limit: AT_ONCE, run, ...(stream !== "" && { stream }) };
    const { entries, next } = await request("GET", "api/v1/audit", { ...query, grouped: !run }, signal);
    return { items: entries, next };
  });
  const { items, isLoading, isWhole, refused, more } = list;
  return (
    <>
      <PageHead title="Audit log">
        {run !== undefined && (
          <button type="button" onClick={() => change({ run: "" })}>
            Bulk operation {shortened(run)}: show all
          </button>
        )}
        <Segments
          label="Show"
          options={STREAMS}
          value={stream}
          onChange={(value) => change({ stream: value })}
        />
      </PageHead>
      <StaleNotice answer={{ ...list, reload: list.again }} title="Audit log unavailable" />
      <Card title={run === undefined ? "Entries" : "Lines of the bulk operation"} isBare>
        {items.length === 0 && isWhole && !isLoading && refused === undefined && (
          <NoEntries stream={stream} />
        )}
        {items.length > 0 && (
          <DataTable
            columns={COLUMNS}
            items={run === undefined ? mergeBulkEntries(items) : items}
            keyOf={({ id }) => id}
          />
        )}
        {isLoading && <p class="card-body muted">Loading</p>}
        {!isLoading && !isWhole && refused === undefined && (
          <p class="card-body">
            <button type="button" onClick={more}>
              Show more
            </button>
          </p>
        )}
      </Card>
    </>
  );
}

function NoEntries({ stream }: { stream: (typeof STREAMS)[number]["value"] }) {
  if (stream === "reads")
    return (
      <Empty title="No reads yet">
        Each read of a body or a result is recorded here, with its reader. Reads of lists and details are not.
      </Empty>
    );
  return (
    <Empty title="No actions yet">
      Each replay, pause and decision is recorded here, with its operator and reason.
    </Empty>
  );
}

/**
 * Values of an entry's `selection`, which says how its target was chosen. These values are not shown, because the
 * Target column already shows the id, name, path or address.
 */
const SELF_EVIDENT_SELECTIONS: readonly string[] = ["by id", "by name", "by path", "by address"];

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: "Time", cell: ({ at }) => <Time at={at} /> },
  { title: "User", cell: ({ by }) => by },
  {
    title: "Action",
    cell: ({ action }) => (
      <Badge tone={TONES[action] ?? "neutral"}>{WORDS[action] ?? action.replaceAll("_", " ")}</Badge>
    ),
  },
  {
    title: "Target",
    class: "whole",
    cell: (entry) => (
      <>
        {subjectOf(entry)}
        {!SELF_EVIDENT_SELECTIONS.includes(entry.selection) && (
          <span class="step-aside small muted wrap">{entry.selection}</span>
        )}
      </>
    ),
  },
  {
    title: "Reason",
    class: "wrap whole",
    cell: ({ reason }) => reason ?? "",
  },
];

/** Names of actions on this page, where they differ from those of the audit log. */
const WORDS: Readonly<Record<string, string>> = { begin_audit: "match with chain" };

const TONES: Readonly<Record<string, Tone>> = {
  replay: "accent",
  discard: "bad",
  forget: "bad",
  remove_node: "bad",
  void: "bad",
  settle: "good",
  close_refund: "good",
  begin_replay: "accent",
  begin_discard: "bad",
  pause: "warn",
  resume: "good",
};

function subjectOf(entry: AuditEntry) {
  const { call_id, job, endpoint, deployment, node, run, session, rejected_id, calls, selection } = entry;
  if (run !== undefined && calls !== undefined && calls !== 1) {
    return (
      <a href={linkTo(["audit"], { run })} title={selection}>
        {counted(calls, "call")}
      </a>
    );
  }
  if (call_id !== undefined) {
    return (
      <a class="mono" href={linkTo(["calls", call_id])} title={call_id}>
        {shortened(call_id)}
      </a>
    );
  }
  if (job !== undefined) return `job ${job}`;
  if (endpoint !== undefined) return endpoint;
  if (node !== undefined) return node;
  if (deployment !== undefined) return deployment;
  const id = run ?? session ?? rejected_id ?? "";
  const what = run !== undefined ? "" : session !== undefined ? "session " : "request ";
  return (
    <span title={id}>
      {what}
      <span class="mono">{shortened(id)}</span>
    </span>
  );
}
