/**
 * Returns the part that people can read of the reason why an attempt failed. If the runner answered with a problem
 * document (RFC 9457), the reason is its status and the document. The readable part is then the status and the
 * document's detail, or its title if it has no detail. The document may be truncated. Any other reason is returned
 * unchanged.
 */
export function problemDetail(reason: string): string {
  const [, status, text] = /^(\d{3}) (\{.*)$/s.exec(reason) ?? [];
  if (status === undefined || text === undefined) return reason;
  const problem = parseWhole(text) ?? { detail: memberOf(text, "detail"), title: memberOf(text, "title") };
  const words = [problem.detail, problem.title].find(
    (each) => typeof each === "string" && each.trim() !== "",
  );
  return words === undefined ? reason : `${status} ${words}`;
}

type ProblemMembers = { detail?: unknown; title?: unknown };

function parseWhole(text: string): ProblemMembers | undefined {
  try {
    return JSON.parse(text) as ProblemMembers;
  } catch {
    return undefined;
  }
}

/** Returns a text member of a document that may be truncated. */
function memberOf(text: string, name: "detail" | "title"): string | undefined {
  const escaped = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\(?:u[0-9a-fA-F]{4}|[^u]))*)`).exec(
    text,
  )?.[1];
  return escaped === undefined ? undefined : (JSON.parse(`"${escaped}"`) as string);
}
