import type { IncomingMessage } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";
import type { Reason } from "./advice.ts";
import { type Lookup, type Lookups, RequestValues } from "./template.ts";

/**
 * Creates the error that refuses a credential. The reason is for the log and the operator, and is not sent to the
 * client. `detail` names the expected value and its place. It must contain no part of the received value, which may be
 * a secret.
 */
export function rejected(reason: Reason, detail = ""): AppError {
  const text = detail === "" ? reason : `${reason}: ${detail}`;
  return new AppError("webhook.credential_rejected", { reason: text, publicDetail: "unauthorized" });
}

/** Returns the reason of a refusal without its detail. */
export function reasonOf(message: string): string {
  return message.split(":", 1)[0] ?? "";
}

/** Returns the text that a lookup has found. Throws `webhook.credential_rejected` if it has found none. */
export function need(found: Lookup): string {
  if ("problem" in found) throw rejected(found.problem, found.what);
  return found.value;
}

/** Returns the value of a header that must occur exactly once. */
export function needHeader(req: IncomingMessage, name: string): string {
  return need(new RequestValues(req).header([name]));
}

/** Returns the texts that a lookup has found. Throws `webhook.credential_rejected` if one was missing. */
export function needAll(found: Lookups): readonly string[] {
  if ("problem" in found) throw rejected(found.problem, found.what);
  return found.values;
}

/**
 * Returns a parsed value. Throws `webhook.credential_rejected` if it is undefined, because it could not be parsed;
 * `wanted` describes the expected form.
 */
export function wellFormed<Value>(value: Value | undefined, wanted: () => string): Value {
  if (value === undefined) throw rejected("malformed", wanted());
  return value;
}
