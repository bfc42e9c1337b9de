import { AppError } from "../errors/app-error.ts";

/** One check of a readiness answer: what was found, or the refusal that asking for it ended with. */
export function explain(ask: () => string): { ok: boolean; text: string } {
  try {
    return { ok: true, text: ask() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ok: false, text: `${error.code}: ${error.message}` };
  }
}
