import type { Queues } from "../../api/flow.ts";
import { count, rate } from "../../ui/number.ts";
import { Tile } from "../../ui/tile.tsx";
import { shortDuration } from "../../ui/time.tsx";
import { linkTo } from "../../url-fragment.ts";

type Props = {
  /** Queues of the chosen job, or all queues if no job is chosen. */
  queues: readonly Queues[] | undefined;
  producers: number | undefined;
  /** Empty for all origins. */
  origin: string;
  job: string | undefined;
};

/**
 * Shows the current numbers for the chosen job and origin. The place of a tile stays free while its number is not
 * known, so that the page does not jump.
 */
export function Tiles({ queues, producers, origin, job }: Props) {
  const chosen = queues?.filter((each) => origin === "" || each.origin === origin);
  const minutes = chosen?.flatMap((each) => each.last_minute ?? []);
  const last = (name: "accepted" | "injected" | "refused") =>
    minutes && (minutes.length === 0 ? "–" : rate(minutes.reduce((all, each) => all + each[name], 0) / 60));
  const lately = chosen && "last minute";
  const slowest = chosen && slowestOf(chosen);
  const sum = (...names: readonly ("waiting" | "delayed" | "held" | "active" | "failed")[]) =>
    chosen?.reduce((all, queue) => all + names.reduce((own, name) => own + queue[name], 0), 0);
  const ages = chosen?.flatMap(({ oldest_age_ms }) => oldest_age_ms ?? []);
  const failed = sum("failed");
  return (
    <dl class="tiles">
      <Tile name="Accepted" value={last("accepted")} unit="/s" note={lately} />
      <Tile name="Injected" value={last("injected")} unit="/s" note={lately} />
      {job === undefined ? (
        <Tile name="Refused" value={last("refused")} unit="/s" note={lately} />
      ) : (
        <Tile name="Refused" value="–" note="not counted per job" />
      )}
      <Tile
        name="Waiting or delayed"
        value={written(sum("waiting", "delayed"))}
        note={chosen && waitingNote(written(sum("active")), sum("held") ?? 0)}
      />
      <Tile
        name="Oldest waiting"
        value={ages && (ages.length === 0 ? "–" : shortDuration(Math.max(...ages)))}
      />
      <Tile
        name="Time to inject"
        value={chosen && (slowest === undefined ? "–" : shortDuration(slowest.ms))}
        note={lately && `p99, ${slowest && origin === "" ? slowest.origin : lately}`}
      />
      <Tile
        name="Failed now"
        value={written(failed)}
        href={linkTo(["failed"], { job, origin })}
        isBad={failed !== undefined && failed > 0}
        note={failed === 1 ? "needs attention" : "need attention"}
      />
      <Tile
        name="Producers"
        value={written(producers)}
        isBad={producers === 0}
        note={job === undefined ? "running" : "for all jobs"}
      />
    </dl>
  );
}

function written(value: number | undefined): string | undefined {
  return value === undefined ? undefined : count(value);
}

/**
 * Finds the origin with the highest p99 (99th percentile) of the latency in the last minute. Undefined if no call was
 * injected.
 */
function slowestOf(queues: readonly Queues[]): { origin: string; ms: number } | undefined {
  const known = queues.flatMap(({ origin, last_minute }) => {
    const ms = last_minute?.p99_ms ?? undefined;
    return ms === undefined ? [] : [{ origin, ms }];
  });
  return known.sort((a, b) => b.ms - a.ms)[0];
}

function waitingNote(inFlight: string | undefined, held: number): string {
  return `${inFlight} in flight${held === 0 ? "" : `, ${count(held)} held`}`;
}
