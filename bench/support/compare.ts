import { median } from "./statistics.ts";
import { table } from "./table.ts";

/** The figures of one round; of several, their medians. */
type Figures = { perSecond: number };
type Side<Round> = Round & { rounds: readonly Round[] };

export type Comparison<Round extends Figures> = {
  /** Median of our rates by the median of the baseline's. */
  ratio: number;
  /** The lowest and the highest ratio of one of our rounds to the baseline's round after it. */
  lowest: number;
  highest: number;
  ours: Side<Round>;
  baseline: Side<Round>;
};

/** Rounds that were run by turns, the first of ours before the first of the baseline's. */
export function compare<Round extends Figures>(
  ours: readonly Round[],
  baseline: readonly Round[],
): Comparison<Round> {
  const pairs = ours.map(({ perSecond }, i) => perSecond / (baseline[i]?.perSecond ?? Number.NaN));
  const sides = { ours: toSide(ours), baseline: toSide(baseline) };
  return {
    ratio: sides.ours.perSecond / sides.baseline.perSecond,
    lowest: Math.min(...pairs),
    highest: Math.max(...pairs),
    ...sides,
  };
}

function toSide<Round extends Figures>(rounds: readonly Round[]): Side<Round> {
  const keys = Object.keys(rounds[0] ?? {}) as (keyof Round)[];
  const medians = keys.map((key) => [key, median(rounds.map((round) => Number(round[key])))]);
  return { ...(Object.fromEntries(medians) as Round), rounds };
}

type Shown<Round> = {
  /** What was counted, and the name of our side. */
  what: string;
  name: string;
  columns: readonly (readonly [head: string, key: keyof Round])[];
};

/** Both sides' medians, then every round of theirs. */
export function comparisonTable<Round extends Figures>(
  { ours, baseline }: Comparison<Round>,
  { what, name, columns }: Shown<Round>,
): string {
  const row = (text: string, round: Round) => [text, ...columns.map(([, key]) => Number(round[key]))];
  const rows = [row(name, ours), row("baseline", baseline)];
  for (const [i, round] of ours.rounds.entries()) {
    rows.push(row(`  round ${i + 1}  ${name}`, round));
    const after = baseline.rounds[i];
    if (after !== undefined) rows.push(row("           baseline", after));
  }
  return table([what, ...columns.map(([head]) => head)], rows);
}
