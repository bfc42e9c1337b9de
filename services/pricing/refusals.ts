import { AppError } from "../../shared/errors/app-error.ts";

/** A refusal that names its field. */
export function invalid(field: string, problem: string, cause?: unknown): AppError {
  const detail = `${field}: ${problem}`;
  return new AppError("pricing.request_invalid", { reason: detail, publicDetail: detail, cause });
}
