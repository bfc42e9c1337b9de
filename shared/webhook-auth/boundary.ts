import type { Timestamp } from "./signature-scheme.ts";
import type { Part } from "./template.ts";

/*
 * Where a part of what is signed ends. Bytes must not move from a part to the one beside it: the request would be another
 * one under the same signature.
 */

/** By nothing; by the first byte that is not one of a token, which the body begins with; by a text that it does not hold. */
export type Ends = "anywhere" | "after-token" | { readonly before: string };

/** Parts whose length the sender of a request chooses. */
const VARIABLE: readonly Part["kind"][] = [
  "header",
  "query",
  "pair",
  "named-headers",
  "body",
  "field",
  "form",
];

/** What an id or a type consists of. A JSON text never begins so. */
const TOKEN = /^[A-Za-z0-9._/+-]*$/;

export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

/** Whether a value ends where it should. */
export function isEnded(bytes: Buffer, ends: Ends): boolean {
  if (ends === "anywhere") return true;
  return ends === "after-token" ? isToken(bytes.toString("latin1")) : !bytes.includes(ends.before);
}

/** What tells where the part at this place ends. */
export function endsOf(parts: readonly Part[], at: number): Ends {
  return needsEnd(parts, at) ? (endBeside(parts, at) ?? "anywhere") : "anywhere";
}

/** What is wrong with `signed`, as far as its parts could trade bytes. */
export function boundaryProblem(
  parts: readonly Part[],
  timestamp: Timestamp | undefined,
): string | undefined {
  const open = parts.find((part, at) => {
    // The digits of a time are counted.
    const isTime = part.kind === "field" && timestamp?.field === `/${part.pointer.join("/")}`;
    return !isTime && needsEnd(parts, at) && endBeside(parts, at) === undefined;
  });
  if (open === undefined) return undefined;
  return `must separate {${open.kind}} from the parts beside it with text: otherwise, its bounds are ambiguous`;
}

const isBody = ({ kind }: Part) => kind === "body" || kind === "form";

/** Whether it stands before another part of any length, or behind the body. */
function needsEnd(parts: readonly Part[], at: number): boolean {
  const part = parts[at];
  if (part === undefined || !VARIABLE.includes(part.kind) || isBody(part)) return false;
  return parts.slice(0, at).some(isBody) || parts.slice(at + 1).some(({ kind }) => VARIABLE.includes(kind));
}

/** The text after it, or behind the body before it; else a time of a fixed form and the beginning of the body. */
function endBeside(parts: readonly Part[], at: number): Ends | undefined {
  const isBehindBody = parts.slice(0, at).some(isBody);
  const beside = parts[isBehindBody ? at - 1 : at + 1];
  const isNextToLastBeforeBody = parts[at + 2]?.kind === "body";
  if (parts[at]?.kind === "named-headers") {
    const isBeforeDot = beside?.kind === "literal" && beside.text === ".";
    return isBeforeDot && isNextToLastBeforeBody ? "after-token" : undefined;
  }
  if (beside?.kind === "literal") return { before: beside.text };
  return !isBehindBody && beside?.kind === "timestamp" && isNextToLastBeforeBody ? "after-token" : undefined;
}
