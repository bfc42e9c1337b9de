import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { messageOf } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";

/** A body on the command line: the text itself, or the file that holds it. */
export type BodyOptions = { body?: string; bodyFile?: string };

/** Ends a command that was given both. */
export function assertOneBody(command: Command, { body, bodyFile }: BodyOptions): void {
  if (body === undefined || bodyFile === undefined) return;
  command.error("error: either --body or --body-file", { exitCode: EXIT.usage });
}

/** Undefined where none was given. */
export function readBody({ body, bodyFile }: BodyOptions): Uint8Array | undefined {
  if (bodyFile === undefined) return body === undefined ? undefined : Buffer.from(body);
  try {
    return readFileSync(bodyFile);
  } catch (cause) {
    throw new Error(`the body cannot be read: ${messageOf(cause)}`, { cause });
  }
}
