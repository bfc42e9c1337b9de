/** What came of work that had a deadline. */
export type Outcome<Result> =
  | { kind: "done"; result: Result }
  | { kind: "failed"; error: unknown }
  /** The work itself goes on, its outcome unknown. */
  | { kind: "late" };

/** Waits for `work`, at most `ms`; never rejects. */
export function within<Result>(ms: number, work: Promise<Result>): Promise<Outcome<Result>> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ kind: "late" }), Math.max(ms, 0));
    const settle = (outcome: Outcome<Result>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    work.then(
      (result) => settle({ kind: "done", result }),
      (error: unknown) => settle({ kind: "failed", error }),
    );
  });
}
