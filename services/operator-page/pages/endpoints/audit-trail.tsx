import { ask } from "../../api/ask.ts";
import { usePages } from "../../api/use-pages.ts";
import { linkTo } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { Badge, Empty, Notice, type Tone } from "../../ui/notice.tsx";
import { Time } from "../../ui/time.tsx";

/** What somebody did, and why. What it is about depends on the action. */
type AuditEntry = {
  id: string;
  at: string;
  action: string;
  by: string;
  call_id?: string;
  job?: string;
  path?: string;
  selection: string;
  reason?: string;
  transaction?: string;
};

type AuditPage = { entries: AuditEntry[]; next: string | null };

const AT_ONCE = 100;

/** Who did what, when and why, the newest first. */
export function AuditTrail() {
  const list = usePages<AuditEntry>("", async (cursor, signal) => {
    const query = { cursor, limit: AT_ONCE };
    const { entries, next } = await ask<AuditPage>("GET", "api/v1/audit", { query, signal });
    return { items: entries, next };
  });
  const { items, isLoading, isWhole, refused, again, more } = list;
  return (
    <>
      {refused !== undefined && (
        <Notice tone="bad" title="The audit cannot be read" action={{ name: "Try again", run: again }}>
          {refused.detail}
        </Notice>
      )}
      <Card title="Audit trail" isBare>
        {items.length === 0 && !isLoading && refused === undefined && (
          <Empty title="Nobody has done anything yet">
            Each replay, pause and decision is noted here, with who did it and why.
          </Empty>
        )}
        {items.length > 0 && <Table entries={items} />}
        {isLoading && <p class="card-body muted">Loading</p>}
        {!isLoading && !isWhole && items.length > 0 && (
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

function Table({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <div class="table-box">
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">What</th>
            <th scope="col">Of what</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.id}>
              <td>
                <Time at={entry.at} />
              </td>
              <td data-label="Who">{entry.by}</td>
              <td data-label="What">
                <Badge tone={TONES[entry.action] ?? "neutral"}>{entry.action}</Badge>
              </td>
              <td class="whole" data-label="Of what">
                {subjectOf(entry)}
              </td>
              <td class="wrap whole" data-label="Why">
                {entry.reason ?? <span class="muted">{entry.selection}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const TONES: Readonly<Record<string, Tone>> = {
  replay: "accent",
  discard: "bad",
  forget: "bad",
  void: "bad",
  settle: "good",
  pause: "warn",
  resume: "good",
};

function subjectOf({ call_id, job, path }: AuditEntry) {
  if (call_id !== undefined) {
    return (
      <a class="mono" href={linkTo(["calls", call_id])} title={call_id}>
        {shortened(call_id)}
      </a>
    );
  }
  return job === undefined ? path : `job ${job}`;
}
