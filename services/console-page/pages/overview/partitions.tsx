import { memoryRatio, type Overview } from "../../api/flow.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Badge } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";

type Partition = Overview["partitions"][number];

const COLUMNS: readonly Column<Partition>[] = [
  { title: "Partition", cell: ({ index }) => index },
  { title: "Redis", class: "mono", cell: ({ address }) => address ?? "–" },
  {
    title: "State",
    class: "whole",
    cell({ reachable, problem }) {
      if (problem === null) return <Badge tone="good">usable</Badge>;
      return (
        <>
          <Badge tone="bad">{reachable ? "not durable" : "unusable"}</Badge>{" "}
          <span class="muted small">{problem}</span>
        </>
      );
    },
  },
  {
    title: "Waiting",
    class: "number",
    cell: ({ waiting }) => (waiting === null ? "–" : count(waiting)),
  },
  {
    title: "Memory",
    class: "number",
    cell(partition) {
      const ratio = memoryRatio(partition);
      return ratio === undefined ? "–" : `${Math.round(ratio * 100)} %`;
    },
  },
];

/** Lists the partitions of the deployment, and their addresses. Shows nothing for a single partition. */
export function Partitions({ partitions }: Pick<Overview, "partitions">) {
  if (partitions.length === 1) return null;
  return (
    <Card title="Partitions" isBare>
      <DataTable columns={COLUMNS} items={partitions} keyOf={({ index }) => String(index)} />
    </Card>
  );
}
