/** `npm run test:long` runs every test, and `npm test` at least one of each kind. */
export const LONG_RUN = process.env["LONG_RUN"] === "1";

/** All rows in the long run, and otherwise the first of them. */
export function sample<Row>(rows: readonly Row[], count = 1): readonly Row[] {
  return LONG_RUN ? rows : rows.slice(0, count);
}

/** Declares tests for the long run alone. A whole file of them is named `*.long.test.ts` instead. */
export function onlyInLongRun(declare: () => void): void {
  if (LONG_RUN) declare();
}
