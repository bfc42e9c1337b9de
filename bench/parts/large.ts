import { type Counts, totalOf } from "../support/counts.ts";
import type { Setup } from "../support/setup.ts";
import { mebibytes, table } from "../support/table.ts";
import { type Drained, measureDrained } from "./large-drain.ts";
import { type AtGateway, measureAtGateway } from "./large-ingress.ts";

export type LargeFigures = Counts & { atGateway: AtGateway; drained: Drained };

/** What bodies of 25 MiB cost on their way in and on their way out. Throws if a call is refused or injected twice. */
export async function measureLarge(setup: Setup): Promise<LargeFigures> {
  const atGateway = await measureAtGateway(setup);
  const drained = await measureDrained(setup);
  const total = totalOf([atGateway, drained]);
  if (total.duplicates > 0) throw new Error(`${total.duplicates} calls were offered to the runner again`);
  return { ...total, atGateway, drained };
}

export function largeTable({ atGateway, drained }: LargeFigures): string {
  const { large, middle, small } = atGateway;
  const ways = [
    ["25 MiB, all at once", large],
    ["300 KiB, beside them", middle],
    ["1 byte, beside them", small],
  ] as const;
  const gateway = table(
    ["postern webhooks", "calls", "accepted", "slowest s"],
    ways.map(([what, { calls, slowestMs }]) => [what, calls, calls, slowestMs / 1000]),
  );
  const producers = table(
    [`${drained.large} calls of 25 MiB, ${drained.small} small`, "injected", "peak MiB"],
    drained.producers.map(({ injected, peakRssBytes }, i) => [
      `producer ${i + 1}`,
      injected,
      mebibytes(peakRssBytes),
    ]),
  );
  const peak = `  peak of the gateway: ${Math.round(mebibytes(atGateway.peakRssBytes))} MiB`;
  const took = `  all injected after ${(drained.ms / 1000).toFixed(1)} s`;
  return [`${gateway}\n\n${peak}`, `${producers}\n\n${took}`].join("\n\n");
}
