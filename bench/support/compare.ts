import { median } from "./statistics.ts";
import { table } from "./table.ts";

/** The figures of one round; of several, their medians. */
type Figures = { perSecond: number };
type Side<Round> = Round & { rounds: readonly Round[] };

/** Each round of ours, and the same round of the baseline. */
export type BothSides<Round> = { ours: Side<Round>; baseline: Side<Round> };

export type Comparison<Round extends Figures> = BothSides<Round> & {
  /** Median of our rates by the median of the baseline's. */
  ratio: number;
  /** The lowest and the highest ratio of one of our rounds to the same round of the baseline. */
  lowest: number;
  highest: number;
};

/** Turns of each side in a round. */
export const TURNS = 5;

/** One turn of either side. */
type Sides<Round> = { ours: () => Promise<Round>; baseline: () => Promise<Round> };

/**
 * Both sides by turns, ours first. A round is the median of some turns, and the turns are short: what else the machine does
 * comes and goes within seconds, and is to fall on both sides.
 */
export async function compareByTurns<Round extends Figures>(
  rounds: number,
  { ours, baseline }: Sides<Round>,
): Promise<Comparison<Round>> {
  const sides = { ours: [] as Round[], baseline: [] as Round[] };
  for (let round = 0; round < rounds; round++) {
    const turns = { ours: [] as Round[], baseline: [] as Round[] };
    for (let turn = 0; turn < TURNS; turn++) {
      turns.ours.push(await ours());
      turns.baseline.push(await baseline());
    }
    sides.ours.push(medians(turns.ours));
    sides.baseline.push(medians(turns.baseline));
  }
  return compare(sides.ours, sides.baseline);
}

function compare<Round extends Figures>(
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

export function toSide<Round extends object>(rounds: readonly Round[]): Side<Round> {
  return { ...medians(rounds), rounds };
}

function medians<Round extends object>(rounds: readonly Round[]): Round {
  const keys = Object.keys(rounds[0] ?? {}) as (keyof Round)[];
  return Object.fromEntries(
    keys.map((key) => [key, median(rounds.map((round) => Number(round[key])))]),
  ) as Round;
}

type Shown<Round> = {
  /** What was counted, and the name of our side. */
  what: string;
  name: string;
  columns: readonly (readonly [head: string, key: keyof Round])[];
};

/** Both sides' medians, then every round of theirs. */
export function comparisonTable<Round extends object>(
  { ours, baseline }: BothSides<Round>,
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
