import { memoryRatio, type Overview, type ProcessStatus, type RedisStatus } from "../../api/flow.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

/** Lists the running processes with their releases and configurations, and shows how safely Redis stores the data. */
export function Processes({ overview }: { overview: Overview }) {
  const { processes, processes_unreadable: unreadable, redis } = overview;
  const differs = (name: "version" | "config", { kind, ...own }: ProcessStatus): boolean =>
    processes.some((other) => other.kind === kind && other[name] !== own[name]);
  const compared = (name: "version" | "config") => (process: ProcessStatus) =>
    differs(name, process) ? <Badge tone="warn">{process[name]}</Badge> : process[name];
  const columns: Column<ProcessStatus>[] = [
    { title: "Process", cell: ({ kind }) => kind },
    { title: "Host", class: "mono", cell: ({ host }) => host },
    { title: "PID", class: "number wide", cell: ({ pid }) => pid },
    { title: "Release", cell: compared("version") },
    { title: "Configuration", class: "mono", cell: compared("config") },
    { title: "Loaded", class: "number wide", cell: ({ configured_at }) => <Ago at={configured_at} /> },
    { title: "Durability", class: "wide", cell: ({ durability }) => durability },
    { title: "Started", class: "number", cell: ({ started_at }) => <Ago at={started_at} /> },
  ];
  return (
    <Card title="Processes" tools={<Durability redis={redis} />} isBare>
      {processes.length === 0 ? (
        <Empty title="No processes reported">
          Each process reports every 10 seconds, unless <code>console.report</code> is off.
        </Empty>
      ) : (
        <DataTable
          columns={columns}
          items={processes}
          keyOf={({ kind, host, pid, started_at }) => `${kind} ${host} ${pid} ${started_at}`}
        />
      )}
      {unreadable > 0 && (
        <p class="card-body muted">
          Not shown: {counted(unreadable, "process", "processes")} with an unreadable record.
        </p>
      )}
    </Card>
  );
}

const PROOFS: Readonly<Record<string, string>> = {
  always: "fsync before each reply",
  replicated: "confirmed by all replicas",
  managed: "as the service promises",
  none: "accepted calls can be lost",
};

function Durability({ redis }: { redis: RedisStatus }) {
  const { durability, problem, proof } = redis;
  const ratio = memoryRatio(redis);
  const memory = ratio === undefined ? "" : `, Redis ${Math.round(ratio * 100)} % full`;
  return (
    <span class="small muted">
      <Badge tone={problem === null && durability !== "relaxed" ? "good" : "bad"}>{durability}</Badge>{" "}
      {problem === null ? (PROOFS[proof ?? "none"] ?? proof) : "not durable"}
      {memory}
    </span>
  );
}
