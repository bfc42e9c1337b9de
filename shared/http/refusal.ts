import type { AppError } from "../errors/app-error.ts";
import { CODES } from "../errors/codes.ts";
import type { Fields, Logger } from "../log/logger.ts";

/** Logs a refusal that has been answered: the reason, and for what nobody foresaw the stack. */
export function logRefused(
  log: Logger,
  event: string,
  { error, ...fields }: Fields & { error: AppError },
): void {
  const { status } = CODES[error.code];
  log[status >= 500 ? "error" : "warn"](event, {
    ...fields,
    code: error.code,
    status,
    reason: error.message,
    ...(error.code === "internal.unexpected" && { stack: error.stack }),
  });
}
