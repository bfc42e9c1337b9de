import type { z } from "zod";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { CODES, isErrorCode } from "../../../shared/platform/errors/codes.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { type ConsoleClient, NoAnswer } from "./client.ts";

type AnyRun = { id: string; ended_at: string | null; failure: { code: string; reason: string } | null };

const POLL_MS = 250;
/** A run goes on without whoever follows it: so long a console may be away, as while it is started anew. */
const AWAY_MS = 60_000;

/**
 * Begins a run of the console and waits for its end, telling how far it is. Once the signal is aborted the run is cancelled; what it has in
 * hand is waited for all the same. If the console stops answering, the error names the run.
 */
export async function runAtConsole<Run extends AnyRun>(
  client: ConsoleClient,
  { schema, path, order }: { schema: z.ZodType<Run>; path: string; order: unknown },
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (run: Run) => void } = {},
): Promise<Run> {
  let run = await client.ask(schema, "POST", path, { body: order });
  const at = `${path}/${run.id}`;
  let isCancelled = false;
  let heardAt = systemClock();
  while (run.ended_at === null) {
    await delay(POLL_MS);
    const cancels: boolean = signal?.aborted === true && !isCancelled;
    try {
      run = await client.ask(schema, cancels ? "DELETE" : "GET", at);
    } catch (error) {
      if (mayPass(error) && systemClock() - heardAt < AWAY_MS) continue;
      throw new Error(
        `${messageOf(error)}; ${run.id} may still be running: GET /api/v1/${at} shows its progress`,
        { cause: error },
      );
    }
    heardAt = systemClock();
    isCancelled ||= cancels;
    onProgress?.(run);
  }
  return run;
}

function mayPass(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof AppError && CODES[error.code].retryable);
}

/** What has stopped it. */
export function failureOf({ failure }: AnyRun): AppError | undefined {
  if (failure === null) return undefined;
  const code = isErrorCode(failure.code) ? failure.code : "internal.unexpected";
  return new AppError(code, { reason: failure.reason });
}
