/*
 * Reads the Prefer header (RFC 7240), a list of preferences with commas. Preferences other than `wait` are ignored. From the
 * first text that is no valid list element on, the rest of the header is ignored.
 */

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = '"(?:[^"\\\\]|\\\\.)*"';
const PARAMETERS = `(?:[ \\t]*;(?:[ \\t]*${TOKEN}(?:[ \\t]*=[ \\t]*(?:${TOKEN}|${QUOTED}))?)?)*`;

/** An element of the list, with the comma or the end of the header after it. */
const ELEMENT = new RegExp(`((?:[^",]|${QUOTED})*)(?:,|$)`, "y");
const NAME = new RegExp(`^[ \\t]*(${TOKEN})`);
/** A `wait` preference. Its value has digits only (section 4.3). */
const WAIT = new RegExp(`^[ \\t]*wait[ \\t]*=[ \\t]*(\\d+)${PARAMETERS}[ \\t]*$`, "i");

/**
 * Returns how many seconds the client would wait for the answer, at most `secsMax`. Undefined if there is no valid `wait`, or if
 * it is 0. Only the first `wait` counts (section 2). `header` has the values of all Prefer headers of the request, joined by
 * commas.
 */
export function preferredWaitSecs(header: string, secsMax: number): number | undefined {
  const first = elementsOf(header).find((element) => NAME.exec(element)?.[1]?.toLowerCase() === "wait");
  const digits = first === undefined ? undefined : WAIT.exec(first)?.[1];
  const secs = Math.min(Number(digits ?? 0), secsMax);
  return secs > 0 ? secs : undefined;
}

function elementsOf(header: string): string[] {
  const elements: string[] = [];
  ELEMENT.lastIndex = 0;
  for (let at = 0; at < header.length; at = ELEMENT.lastIndex) {
    const found = ELEMENT.exec(header);
    if (found === null) return elements;
    elements.push(found[1] ?? "");
  }
  return elements;
}
