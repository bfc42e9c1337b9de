import { setTimeout as pause } from "node:timers/promises";

/** Asks until the answer is truthy and resolves with it; an error counts as "not yet". Rejects after the deadline. */
export async function eventually<Answer>(
  what: string,
  ask: () => Answer | Promise<Answer>,
  deadlineMs = 15_000,
): Promise<NonNullable<Answer>> {
  const deadline = Date.now() + deadlineMs;
  let last: unknown;
  while (Date.now() < deadline) {
    try {
      const answer = await ask();
      if (answer) return answer;
      last = answer;
    } catch (error) {
      last = error;
    }
    await pause(20);
  }
  throw new Error(`not within ${deadlineMs} ms: ${what} (last: ${String(last)})`);
}
