import { AppError } from "../platform/errors/app-error.ts";

/** Whether work can be taken now, and what was found of each part. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, unknown>> };

/** One check of a readiness answer: what was found, or the refusal. */
export function explain(ask: () => string): { ok: boolean; text: string } {
  try {
    return { ok: true, text: ask() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ok: false, text: `${error.code}: ${error.message}` };
  }
}
