import type { FlowLine, Overview } from "../../api/flow.ts";
import { linkTo } from "../../route.ts";
import { count, rate } from "../../ui/number.ts";
import { duration } from "../../ui/time.tsx";

type Props = {
  line: FlowLine | undefined;
  stepMs: number | undefined;
  overview: Overview | undefined;
  origin: string;
};

/** Of the last minute, or of one coarse step. Processes tell every ten seconds, so the newest two steps may still grow. */
const NEW_STEPS = 2;
const MINUTE_MS = 60_000;

/** The numbers of now. Each keeps its place, whatever it says. */
export function Tiles({ line, stepMs, overview, origin }: Props) {
  const last = (values: readonly number[] | undefined): string => {
    if (values === undefined || stepMs === undefined) return "";
    const skipped = stepMs < MINUTE_MS ? NEW_STEPS : 0;
    const steps = Math.max(1, Math.round(MINUTE_MS / stepMs));
    const end = values.length - skipped;
    const some = values.slice(Math.max(0, end - steps), end);
    return rate((some.reduce((sum, value) => sum + value, 0) * 1000) / (steps * stepMs));
  };
  const latest = (values: readonly (number | null)[] | undefined): string => {
    const known = values?.findLast((value) => value !== null);
    return known == null ? "–" : duration(known);
  };
  const queues = overview?.queues.filter((each) => origin === "" || each.origin === origin) ?? [];
  const sum = (name: "waiting" | "delayed" | "active" | "failed") =>
    queues.reduce((all, queue) => all + queue[name], 0);
  const ages = queues.flatMap(({ oldest_age_ms }) => oldest_age_ms ?? []);
  const failed = sum("failed");
  return (
    <dl class="tiles">
      <Tile name="Accepted" value={last(line?.accepted)} unit="/s" />
      <Tile name="Delivered" value={last(line?.injected)} unit="/s" />
      <Tile name="Refused" value={last(line?.refused)} unit="/s" />
      <Tile
        name="Waiting"
        value={overview && count(sum("waiting") + sum("delayed"))}
        note={`${count(sum("active"))} in hand`}
      />
      <Tile name="Oldest waits" value={overview && (ages.length === 0 ? "–" : duration(Math.max(...ages)))} />
      <Tile
        name="Half answered in"
        value={line && latest(line.p50_ms)}
        note={`99 of 100 in ${latest(line?.p99_ms)}`}
      />
      <Tile
        name="Failed"
        value={overview && count(failed)}
        href={linkTo(["failed"])}
        isBad={failed > 0}
        note="wait for somebody"
      />
    </dl>
  );
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
