import { AppError } from "../../shared/errors/app-error.ts";

/** A refusal that names its field. */
export function invalid(field: string, problem: string, cause?: unknown): AppError {
  const detail = `${field}: ${problem}`;
  return AppError.public("pricing.request_invalid", detail, { cause });
}
