import type { RunnerStatus } from "../../api/flow.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Badge, type Tone } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

const WORDS: Readonly<Record<string, { tone: Tone; word: string }>> = {
  away: { tone: "bad", word: "unreachable" },
  silent: { tone: "warn", word: "does not answer" },
  failing: { tone: "warn", word: "answers with 5xx" },
  answers: { tone: "good", word: "answers" },
};
const NOT_ASKED = { tone: "neutral", word: "no answer reported yet" } as const;

const COLUMNS: readonly Column<RunnerStatus>[] = [
  { title: "Runner", cell: ({ name }) => name },
  { title: "Address", class: "mono whole wrap", cell: ({ url }) => url },
  {
    title: "State",
    class: "whole",
    cell({ state, reason }) {
      const { tone, word } = WORDS[state] ?? NOT_ASKED;
      return (
        <>
          <Badge tone={tone}>{word}</Badge> {reason !== null && <span class="muted small">{reason}</span>}
        </>
      );
    },
  },
  {
    title: "Last answer",
    class: "number",
    cell: ({ answered_at: at }) => (at === null ? "–" : <Ago at={at} />),
  },
  {
    title: "Producers",
    class: "number",
    cell: ({ unanswered, producers }) =>
      `${unanswered > 0 && unanswered < producers ? `${count(unanswered)} of ` : ""}${count(producers)}`,
  },
];

/** Lists the runners, and whether they answer their producers. */
export function Runners({ runners }: { runners: readonly RunnerStatus[] }) {
  if (runners.length === 0) return null;
  return (
    <Card title="Runners (up to 10 s behind)" isBare>
      <DataTable columns={COLUMNS} items={runners} keyOf={({ name, url }) => `${name} ${url}`} />
    </Card>
  );
}
