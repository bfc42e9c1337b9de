import type { FlowLine, Overview } from "../../api/flow.ts";
import { linkTo } from "../../route.ts";
import { count, rate } from "../../ui/number.ts";
import { shortDuration } from "../../ui/time.tsx";

type Props = {
  lines: readonly FlowLine[] | undefined;
  stepMs: number | undefined;
  overview: Overview | undefined;
  origin: string;
};

/** How many of the newest steps may still grow: processes tell every ten seconds, and a coarse step is under way for five minutes. */
export function growingSteps(stepMs: number): number {
  return stepMs < MINUTE_MS ? 2 : 1;
}

const MINUTE_MS = 60_000;
/** A percentile that is older says nothing of now. */
const LATELY_MS = 600_000;

/** The numbers of now, as of the last minute or coarse step that is whole. Each keeps its place, whatever it says. */
export function Tiles({ lines, stepMs, overview, origin }: Props) {
  const last = (name: "accepted" | "injected" | "refused"): string => {
    if (lines === undefined || stepMs === undefined) return "";
    const skipped = growingSteps(stepMs);
    const steps = Math.max(1, Math.round(MINUTE_MS / stepMs));
    const some = lines.flatMap(({ [name]: values }) => {
      const end = values.length - skipped;
      return values.slice(Math.max(0, end - steps), end);
    });
    return rate((some.reduce((sum, value) => sum + value, 0) * 1000) / (steps * stepMs));
  };
  const slowest = lines && slowestOf(lines, stepMs);
  const queues = overview?.queues.filter((each) => origin === "" || each.origin === origin) ?? [];
  const sum = (name: "waiting" | "delayed" | "active" | "failed") =>
    queues.reduce((all, queue) => all + queue[name], 0);
  const ages = queues.flatMap(({ oldest_age_ms }) => oldest_age_ms ?? []);
  const failed = sum("failed");
  const producers = overview?.workers.length;
  return (
    <dl class="tiles">
      <Tile name="Accepted" value={last("accepted")} unit="/s" />
      <Tile name="Delivered" value={last("injected")} unit="/s" />
      <Tile name="Refused" value={last("refused")} unit="/s" />
      <Tile
        name="Waiting"
        value={overview && count(sum("waiting") + sum("delayed"))}
        note={`${count(sum("active"))} in hand`}
      />
      <Tile
        name="Oldest waits"
        value={overview && (ages.length === 0 ? "–" : shortDuration(Math.max(...ages)))}
      />
      <Tile
        name="p99 latency"
        value={lines && (slowest === undefined ? "–" : shortDuration(slowest.ms))}
        note={slowest !== undefined && origin === "" ? `of ${slowest.origin} calls` : ""}
      />
      <Tile
        name="Failed"
        value={overview && count(failed)}
        href={linkTo(["failed"])}
        isBad={failed > 0}
        note="need somebody"
      />
      <Tile
        name="Producers"
        value={producers === undefined ? undefined : count(producers)}
        isBad={producers === 0}
        note="alive"
      />
    </dl>
  );
}

/** The newest percentile of the origin where it is the highest. */
function slowestOf(
  lines: readonly FlowLine[],
  stepMs = MINUTE_MS,
): { origin: string; ms: number } | undefined {
  const steps = Math.ceil(LATELY_MS / stepMs);
  const newest = lines.flatMap(({ origin, p99_ms }) => {
    const ms = p99_ms.slice(-steps).findLast((value) => value !== null);
    return ms == null ? [] : [{ origin, ms }];
  });
  return newest.sort((a, b) => b.ms - a.ms)[0];
}

type TileProps = {
  name: string;
  value: string | undefined;
  unit?: string;
  note?: string;
  href?: string;
  isBad?: boolean;
};

function Tile({ name, value = "", unit = "", note = "", href, isBad = false }: TileProps) {
  const shown = (
    <>
      {value}
      {value !== "" && unit !== "" && <span class="tile-unit">{unit}</span>}
    </>
  );
  return (
    <div class={`tile ${isBad ? "bad" : ""}`}>
      <dt>{name}</dt>
      <dd class="tile-value">{href === undefined ? shown : <a href={href}>{shown}</a>}</dd>
      <dd class="tile-note muted small">{note}</dd>
    </div>
  );
}
