import { type Counts, countsLine, lostOf } from "./counts.ts";

/** Result of a part of the bench. `counts` show whether calls were lost, and `failures` are the texts of other faults. */
export type Measured = { figures: object; text: string; counts?: Counts; failures?: readonly string[] };

type Part = readonly [name: string, measure: () => Promise<Measured>];

/**
 * Measures one part of the bench after the other, and prints each part's figures as soon as it is done. If a part throws, its
 * error takes the place of its figures and counts as a failure. The other parts still run.
 */
export async function measureAll(
  parts: readonly Part[],
  print: (text: string) => void,
): Promise<{ figures: Record<string, object>; failed: number }> {
  const all: Record<string, object> = {};
  let failed = 0;
  for (const [part, measure] of parts) {
    const { figures, text, counts, failures = [] } = await measure().catch(toFailed);
    all[part] = figures;
    print(`\n${part}\n${text}`);
    for (const failure of failures) print(`  FAILED: ${failure}`);
    failed += failures.length;
    if (counts === undefined) continue;
    failed += Math.abs(lostOf(counts));
    print(countsLine(counts));
  }
  return { figures: all, failed };
}

function toFailed(error: unknown): Measured {
  const failure = error instanceof Error ? error.message : String(error);
  return { figures: { failure }, text: "  no figures", failures: [failure] };
}
