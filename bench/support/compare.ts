import { median } from "./statistics.ts";
import { table } from "./table.ts";

/** Figures of one round, or the medians of several rounds. */
type Figures = { perSecond: number };
type Side<Round> = Round & { rounds: readonly Round[] };

/** Medians and rounds of Postern (`ours`) and of the server or build that it is compared with (`baseline`). */
export type BothSides<Round> = { ours: Side<Round>; baseline: Side<Round> };

export type Comparison<Round extends Figures> = BothSides<Round> & {
  /**
   * Median of the ratios of our rate to the baseline's, one for each round. Rates of different rounds are not compared,
   * because the speed of the machine changes over time.
   */
  ratio: number;
  /** Lowest and highest ratio of our rate to the baseline's rate in one round. */
  lowest: number;
  highest: number;
};

/** Number of turns of each side in a round. */
export const TURNS = 5;

/** Functions by the side's name. Each runs one turn of its side and returns the figures. */
type Turns<Name extends string, Round> = Readonly<Record<Name, () => Promise<Round>>>;

/** Compares both sides in alternating turns, ours first. */
export async function compareByTurns<Round extends Figures>(
  rounds: number,
  sides: Turns<"ours" | "baseline", Round>,
): Promise<Comparison<Round>> {
  const { ours, baseline } = await roundsByTurns(rounds, sides);
  return compare(ours, baseline);
}

/**
 * Measures all sides in alternating turns. The figures of a round are the medians of `TURNS` short turns. Other load on the
 * machine typically lasts some seconds. Because the turns are short, it then slows all sides and not only one.
 */
export async function roundsByTurns<Name extends string, Round extends object>(
  count: number,
  sides: Turns<Name, Round>,
): Promise<Record<Name, Round[]>> {
  const names = Object.keys(sides) as Name[];
  const each = () => Object.fromEntries(names.map((name) => [name, [] as Round[]])) as Record<Name, Round[]>;
  const rounds = each();
  for (let round = 0; round < count; round++) {
    const turns = each();
    for (let turn = 0; turn < TURNS; turn++) for (const name of names) turns[name].push(await sides[name]());
    for (const name of names) rounds[name].push(medians(turns[name]));
  }
  return rounds;
}

function compare<Round extends Figures>(
  ours: readonly Round[],
  baseline: readonly Round[],
): Comparison<Round> {
  const pairs = ours.map(({ perSecond }, i) => perSecond / (baseline[i]?.perSecond ?? Number.NaN));
  const sides = { ours: toSide(ours), baseline: toSide(baseline) };
  return {
    ratio: median(pairs),
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
  /** Subject of the table, such as "paid requests". `name` is the name of our side. */
  what: string;
  name: string;
  columns: readonly (readonly [head: string, key: keyof Round])[];
};

/** Builds a table with the medians of both sides, followed by the figures of each round. */
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
