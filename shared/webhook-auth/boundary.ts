import type { Timestamp } from "./signature-scheme.ts";
import type { Part } from "./template.ts";

/*
 * Boundaries between the parts of the signed bytes, such as {header:id}.{body}. If bytes could move from one part to
 * its neighbour without changing the signed bytes, two different requests would have the same signature. So a rule
 * fixes where each part ends.
 */

/**
 * Rule for the end of a part. `anywhere`: the part needs no rule. `after-token`: the part has only the characters of
 * ids and types (`TOKEN`), and the body after it begins with another character. `before`: the part does not contain
 * this literal text, which separates it from its neighbour.
 */
export type Ends = "anywhere" | "after-token" | { readonly before: string };

/** Parts whose length is chosen by the client that sends the request. */
const VARIABLE: readonly Part["kind"][] = [
  "header",
  "query",
  "pair",
  "named-headers",
  "body",
  "field",
  "form",
];

/** Characters of an id or event type. A body that is a JSON list, object or string does not begin with one of them. */
const TOKEN = /^[A-Za-z0-9._/+-]*$/;

export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

/** Returns whether a value obeys the rule for its end. */
export function isEnded(bytes: Buffer, ends: Ends): boolean {
  if (ends === "anywhere") return true;
  return ends === "after-token" ? isToken(bytes.toString("latin1")) : !bytes.includes(ends.before);
}

/** Returns the rule for the end of the part at this index. */
export function endsOf(parts: readonly Part[], at: number): Ends {
  return needsEnd(parts, at) ? (endBeside(parts, at) ?? "anywhere") : "anywhere";
}

/**
 * Describes the problem of a `signed` template that does not fix where each part ends. Returns undefined if it fixes
 * all ends.
 */
export function boundaryProblem(
  parts: readonly Part[],
  timestamp: Timestamp | undefined,
): string | undefined {
  const ambiguous = parts.find((part, at) => {
    // A field with the time has a fixed number of digits, so it needs no boundary.
    const isTime = part.kind === "field" && timestamp?.field === `/${part.pointer.join("/")}`;
    return !isTime && needsEnd(parts, at) && endBeside(parts, at) === undefined;
  });
  if (ambiguous === undefined) return undefined;
  return `must separate {${ambiguous.kind}} from the parts beside it with text: otherwise, its bounds are ambiguous`;
}

const isBody = ({ kind }: Part) => kind === "body" || kind === "form";

/**
 * Returns whether the end of the part needs a rule. It does if the part's length varies, and either the body precedes
 * the part or another part of variable length follows it.
 */
function needsEnd(parts: readonly Part[], at: number): boolean {
  const part = parts[at];
  if (part === undefined || !VARIABLE.includes(part.kind) || isBody(part)) return false;
  return parts.slice(0, at).some(isBody) || parts.slice(at + 1).some(({ kind }) => VARIABLE.includes(kind));
}

/**
 * Returns the rule for the end of a part, if its neighbour marks where it ends. The neighbour is the next part. For a
 * part after the body it is the part before, because there the start must be fixed. A literal always marks the end. A
 * timestamp, or the dot after named headers, marks it only if the body follows directly.
 */
function endBeside(parts: readonly Part[], at: number): Ends | undefined {
  const isBehindBody = parts.slice(0, at).some(isBody);
  const beside = parts[isBehindBody ? at - 1 : at + 1];
  const isBodyAfterBeside = parts[at + 2]?.kind === "body";
  if (parts[at]?.kind === "named-headers") {
    const isBeforeDot = beside?.kind === "literal" && beside.text === ".";
    return isBeforeDot && isBodyAfterBeside ? "after-token" : undefined;
  }
  if (beside?.kind === "literal") return { before: beside.text };
  return !isBehindBody && beside?.kind === "timestamp" && isBodyAfterBeside ? "after-token" : undefined;
}
