import type { IncomingMessage } from "node:http";
import type { AppError } from "../errors/app-error.ts";

const BROKEN_OFF = Symbol("broken off");
const reasons = new WeakMap<IncomingMessage, AppError>();

/** Declares that the rest of this request will not be read, and tells who waits for it; it cannot become whole again. */
export function breakOff(req: IncomingMessage, reason: AppError): void {
  reasons.set(req, reason);
  req.emit(BROKEN_OFF, reason);
}

/** Why the request was broken off; undefined where it was not. */
export function brokenOff(req: IncomingMessage): AppError | undefined {
  return reasons.get(req);
}

export function onceBrokenOff(req: IncomingMessage, told: (reason: AppError) => void): void {
  req.once(BROKEN_OFF, told);
}
