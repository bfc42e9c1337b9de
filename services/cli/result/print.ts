import { bodyText, writeBody } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, plain } from "../text.ts";
import type { JobResult } from "./fetch.ts";

/**
 * Prints a result for people, with its status and length. With --quiet, prints only its bytes, and throws if they could
 * control the terminal.
 */
export function printResult(deps: ProgramDeps, result: JobResult, quiet: boolean): void {
  const { status, contentType, body } = result;
  if (quiet) {
    writeBody(deps, "the result", body);
    return;
  }
  const type = contentType === undefined ? "" : ` ${plain(contentType)}`;
  deps.say(`result: ${status}${type}, ${counted(body.length, "byte")}\n`);
  deps.say(bodyText(body, { full: true }));
}

/** Converts a result to JSON. A body that is not text becomes base64. */
export function resultJson({ status, contentType, body }: JobResult) {
  const text = body.toString("utf8");
  const isText = Buffer.from(text).equals(body);
  return {
    status,
    content_type: contentType,
    ...(isText ? { body: text } : { body_base64: body.toString("base64") }),
  };
}
