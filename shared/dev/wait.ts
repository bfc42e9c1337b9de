import { delay, systemClock, within } from "../platform/time/clock.ts";

const EVERY_MS = 20;
const DEADLINE_MS = 60_000;

/**
 * Calls `ask` until it returns a truthy value, and resolves with that value; an error counts as "not yet". Rejects
 * after the deadline, or with the error of `givenUp` if that rejects first.
 */
export async function eventually<Answer>(
  what: string,
  ask: () => Answer | Promise<Answer>,
  deadlineMs = DEADLINE_MS,
  givenUp?: Promise<never>,
): Promise<NonNullable<Answer>> {
  const deadline = systemClock() + deadlineMs;
  let reason: { error: unknown } | undefined;
  givenUp?.catch((error: unknown) => {
    reason = { error };
  });
  for (;;) {
    const answer = await attempt(ask);
    if ("value" in answer && answer.value) return answer.value;
    if (reason !== undefined) throw reason.error;
    if (systemClock() > deadline)
      throw timeoutError(what, deadlineMs, `(last: ${String(Object.values(answer)[0])})`);
    await delay(EVERY_MS);
  }
}

/** Resolves with the result of `work`. Rejects if the deadline passes first; the work itself then continues. */
export async function beforeDeadline<Result>(
  what: string,
  work: Promise<Result>,
  deadlineMs = DEADLINE_MS,
): Promise<Result> {
  const outcome = await within(deadlineMs, work);
  switch (outcome.kind) {
    case "done":
      return outcome.result;
    case "failed":
      throw outcome.error;
    case "late":
      throw timeoutError(what, deadlineMs);
  }
}

async function attempt<Answer>(ask: () => Answer | Promise<Answer>) {
  try {
    return { value: await ask() };
  } catch (error) {
    return { error };
  }
}

function timeoutError(what: string, deadlineMs: number, last = ""): Error {
  return new Error(`timed out after ${deadlineMs} ms: ${what} ${last}`.trimEnd());
}
