import { AppError } from "../platform/errors/app-error.ts";
import type { Reason } from "./advice.ts";
import type { Lookup } from "./template.ts";

/**
 * The reason is for the log and the operator; the caller is not told it. `detail` says where and what was wanted, and nothing
 * of what came.
 */
export function rejected(reason: Reason, detail = ""): AppError {
  const text = detail === "" ? reason : `${reason}: ${detail}`;
  return new AppError("webhook.credential_rejected", { reason: text, publicDetail: "unauthorized" });
}

/** The reason of a refused credential without its detail. */
export function reasonOf(message: string): string {
  return message.split(":", 1)[0] ?? "";
}

/** The text that was found. Throws if there is none. */
export function need(found: Lookup): string {
  if ("problem" in found) throw rejected(found.problem, found.what);
  return found.value;
}

/** The value, unless it could not be parsed: then `wanted` says what it should have been. */
export function wellFormed<Value>(value: Value | undefined, wanted: () => string): Value {
  if (value === undefined) throw rejected("malformed", wanted());
  return value;
}
