import { AppError } from "../errors/app-error.ts";
import type { Found } from "./template.ts";

type Reason = "missing" | "repeated" | "malformed" | "mismatch" | "stale" | "early";

/** The reason is for the log and the operator; the caller is not told it. */
export function rejected(reason: Reason): AppError {
  return new AppError("webhook.credential_rejected", { reason, publicDetail: "unauthorized" });
}

/** The text that was found. Throws if there is none. */
export function need(found: Found): string {
  if ("problem" in found) throw rejected(found.problem);
  return found.value;
}

/** The value, unless it could not be parsed. */
export function wellFormed<Value>(value: Value | undefined): Value {
  if (value === undefined) throw rejected("malformed");
  return value;
}
