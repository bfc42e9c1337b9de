/** True for `npm run test:long`, which runs the long tests too. `npm test` runs at least one of each kind. */
export const LONG_RUN = process.env["LONG_RUN"] === "1";

/** Returns all rows in the long run, and otherwise only the first ones. */
export function sample<Row>(rows: readonly Row[], count = 1): readonly Row[] {
  return LONG_RUN ? rows : rows.slice(0, count);
}

/**
 * Declares tests that only the long run runs. If a whole file is for the long run, it is named `*.long.test.ts`
 * instead.
 */
export function onlyInLongRun(declare: () => void): void {
  if (LONG_RUN) declare();
}
