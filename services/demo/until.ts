import { messageOf } from "../../shared/errors/app-error.ts";
import { delay, systemClock } from "../../shared/time/clock.ts";

const EVERY_MS = 30;
export const DEADLINE_MS = 15_000;

/** Asks until the answer is yes; an error counts as no. Rejects, naming what was awaited, after the deadline. */
export async function until(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = systemClock() + DEADLINE_MS;
  let trouble = "";
  for (;;) {
    try {
      if (await ask()) return;
      trouble = "";
    } catch (error) {
      trouble = ` (${messageOf(error)})`;
    }
    if (systemClock() > deadline) throw late(what, trouble);
    await delay(EVERY_MS);
  }
}

/** The work's result; rejects, naming what was awaited, when the deadline passes first. */
export async function within<Result>(what: string, work: Promise<Result>, deadlineMs = DEADLINE_MS) {
  const limit = new AbortController();
  const over = delay(deadlineMs, limit.signal).then((): never => {
    throw late(what, "");
  });
  over.catch(() => {});
  try {
    return await Promise.race([work, over]);
  } finally {
    limit.abort();
  }
}

function late(what: string, trouble: string): Error {
  return new Error(`expected, and not seen in time: ${what}${trouble}`);
}
