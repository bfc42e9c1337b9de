import { memoryRatio, type Overview, type ProcessStatus, type RedisStatus } from "../../api/flow.ts";
import { Card } from "../../ui/card.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

/** Who is at work, in which release and with which configuration, and what Redis keeps. */
export function Processes({ overview }: { overview: Overview }) {
  const { processes, processes_unreadable: unreadable, redis } = overview;
  const differs = (name: "version" | "config", { kind, ...own }: ProcessStatus): boolean =>
    processes.some((other) => other.kind === kind && other[name] !== own[name]);
  return (
    <Card title="Processes" tools={<Durability redis={redis} />} isBare>
      {processes.length === 0 ? (
        <Empty title="No processes reported">
          Each process reports every 10 seconds, unless <code>console.report</code> is off.
        </Empty>
      ) : (
        <div class="table-box">
          <table class="stack">
            <thead>
              <tr>
                <th scope="col">Process</th>
                <th scope="col">Host</th>
                <th scope="col" class="number wide">
                  PID
                </th>
                <th scope="col">Release</th>
                <th scope="col">Configuration</th>
                <th scope="col" class="wide">
                  Durability
                </th>
                <th scope="col" class="number">
                  Started
                </th>
              </tr>
            </thead>
            <tbody>
              {processes.map((process) => (
                <tr key={`${process.kind} ${process.host} ${process.pid} ${process.started_at}`}>
                  <td>{process.kind}</td>
                  <td class="mono" data-label="Host">
                    {process.host}
                  </td>
                  <td class="number wide">{process.pid}</td>
                  <td data-label="Release">
                    {differs("version", process) ? (
                      <Badge tone="warn">{process.version}</Badge>
                    ) : (
                      process.version
                    )}
                  </td>
                  <td class="mono" data-label="Configuration">
                    {differs("config", process) ? (
                      <Badge tone="warn">{process.config}</Badge>
                    ) : (
                      process.config
                    )}
                  </td>
                  <td class="wide">{process.durability}</td>
                  <td class="number" data-label="Started">
                    <Ago at={process.started_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
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
  none: "accepted calls can be lost",
};

function Durability({ redis }: { redis: RedisStatus }) {
  const { durability, problem, proof } = redis;
  const ratio = memoryRatio(redis);
  const memory = ratio === undefined ? "" : `, Redis ${Math.round(ratio * 100)} % full`;
  return (
    <span class="small muted">
      <Badge tone={problem === null && durability === "strict" ? "good" : "bad"}>{durability}</Badge>{" "}
      {problem === null ? (PROOFS[proof ?? "none"] ?? proof) : "not durable"}
      {memory}
    </span>
  );
}
