import { AppError } from "../../errors/app-error.ts";

/** Why a source gives no rate. The reason is for operators: it has no URL and no credential in it. */
export function noRate(reason: string, cause?: unknown): AppError {
  return new AppError("price.unavailable", { reason, cause });
}
