import type { z } from "zod";
import { AppError } from "../../../shared/errors/app-error.ts";
import { isErrorCode } from "../../../shared/errors/codes.ts";
import { delay } from "../../../shared/time/clock.ts";
import type { ConsoleClient } from "./client.ts";

type AnyRun = { id: string; ended_at: string | null; failure: { code: string; reason: string } | null };

const POLL_MS = 250;

/**
 * Begins a run of the console and waits for its end, telling how far it is. Once the signal is aborted the run is cancelled; what it has in
 * hand is waited for all the same.
 */
export async function runAtConsole<Run extends AnyRun>(
  client: ConsoleClient,
  { schema, path, order }: { schema: z.ZodType<Run>; path: string; order: unknown },
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (run: Run) => void } = {},
): Promise<Run> {
  let run = await client.ask(schema, "POST", path, { body: order });
  const at = `${path}/${run.id}`;
  let isCancelled = false;
  while (run.ended_at === null) {
    await delay(POLL_MS);
    const cancels: boolean = signal?.aborted === true && !isCancelled;
    run = await client.ask(schema, cancels ? "DELETE" : "GET", at);
    isCancelled ||= cancels;
    onProgress?.(run);
  }
  return run;
}

/** What has stopped it. */
export function failureOf({ failure }: AnyRun): AppError | undefined {
  if (failure === null) return undefined;
  const code = isErrorCode(failure.code) ? failure.code : "internal.unexpected";
  return new AppError(code, { reason: failure.reason });
}
