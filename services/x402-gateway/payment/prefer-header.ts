/*
 * The Prefer header (RFC 7240). A preference that is not understood is as if it were not there, and so is all that follows something that
 * is no list of preferences.
 */

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = '"(?:[^"\\\\]|\\\\.)*"';
const PARAMETERS = `(?:[ \\t]*;(?:[ \\t]*${TOKEN}(?:[ \\t]*=[ \\t]*(?:${TOKEN}|${QUOTED}))?)?)*`;

/** An element of the list, with the comma or the end behind it. */
const ELEMENT = new RegExp(`((?:[^",]|${QUOTED})*)(?:,|$)`, "y");
const NAME = new RegExp(`^[ \\t]*(${TOKEN})`);
/** Its value is of digits alone (section 4.3). */
const WAIT = new RegExp(`^[ \\t]*wait[ \\t]*=[ \\t]*(\\d+)${PARAMETERS}[ \\t]*$`, "i");

/**
 * How many seconds the client would wait for the answer, at most `secsMax`; undefined if it does not say, or would not wait at all. Only the
 * first `wait` counts (section 2). Several headers come as one, joined by commas.
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
