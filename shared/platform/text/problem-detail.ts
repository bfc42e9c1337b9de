/**
 * What a failed attempt's reason says. If the runner answered with a problem document (RFC 9457), that is its detail, else its
 * title; of a document that was cut, as much as is there. Any other reason is returned as it is.
 */
export function problemDetail(reason: string): string {
  const [, status, text] = /^(\d{3}) (\{.*)$/s.exec(reason) ?? [];
  if (status === undefined || text === undefined) return reason;
  const told = whole(text) ?? { detail: memberOf(text, "detail"), title: memberOf(text, "title") };
  const words = [told.detail, told.title].find((each) => typeof each === "string" && each.trim() !== "");
  return words === undefined ? reason : `${status} ${words}`;
}

type ProblemMembers = { detail?: unknown; title?: unknown };

function whole(text: string): ProblemMembers | undefined {
  try {
    return JSON.parse(text) as ProblemMembers;
  } catch {
    return undefined;
  }
}

/** A text member of a document that may end within it. */
function memberOf(text: string, name: "detail" | "title"): string | undefined {
  const escaped = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\(?:u[0-9a-fA-F]{4}|[^u]))*)`).exec(
    text,
  )?.[1];
  return escaped === undefined ? undefined : (JSON.parse(`"${escaped}"`) as string);
}
