import { delay } from "../../shared/time/clock.ts";

/** Asks every 20 ms until the answer is truthy and resolves with it; rejects after the deadline. */
export async function until<Answer>(
  what: string,
  ask: () => Answer | Promise<Answer>,
  deadlineMs = 15_000,
): Promise<NonNullable<Answer>> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (performance.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await delay(20);
  }
}
