import { parseJson } from "../../platform/text/parse-json.ts";
import { unreadable } from "../../redis/unreadable.ts";

/*
 * The result of a call: what its runner answered, or delivered later. It is stored as one line of JSON and the bytes of the body.
 *
 *   answer     a 2xx answer, whole
 *   too_long   a 2xx answer with a longer body than is kept
 *   failure    what the runner of a long job delivered as its failure for good, without a body
 *
 * Why a call failed that Postern failed itself stands in its record, and is no stored result (shared/queue/protocol.ts).
 */

/** How long results are kept, and how many bytes they may take. */
export type ResultLimits = {
  /** How long one is kept, if there is room. */
  resultMs: number;
  /** Of a longer body only that it was too long. */
  resultBytesMax: number;
  /** What all together may take. The oldest give way. */
  bytesMax: number;
};

/** Who told of a result: the answer to the injection, or a delivery after it. */
type By = "answer" | "delivery";

type ResultMeta = {
  status: number;
  contentType: string | undefined;
  /** When it came, unix ms. */
  at: number;
  by: By;
};

export type StoredResult =
  | (ResultMeta & { kind: "answer"; body: Buffer })
  | (ResultMeta & { kind: "too_long" })
  | (ResultMeta & { kind: "failure" } & ProblemText);

/** What a problem document (RFC 9457) says for people. */
export type ProblemText = { title?: string; detail?: string };

/** The first line. What a script reads of it comes first (`deliveredHead` in keep-result.lua). */
type Head = {
  by: By;
  at: number;
  kind: StoredResult["kind"];
  status: number;
  content_type?: string;
} & ProblemText;

const LINE_FEED = 0x0a;

export function encodeResult(result: StoredResult): Buffer {
  const { by, at, kind, status, contentType } = result;
  const head: Head = {
    by,
    at,
    kind,
    status,
    ...(contentType !== undefined && { content_type: contentType }),
    ...(kind === "failure" && textOf(result)),
  };
  const line = Buffer.from(`${JSON.stringify(head)}\n`);
  return kind === "answer" ? Buffer.concat([line, result.body]) : line;
}

/** Throws `record.unreadable` if it is none. */
export function decodeResult(stored: Buffer): StoredResult {
  const end = stored.indexOf(LINE_FEED);
  const head = parsed(stored.toString("utf8", 0, Math.max(0, end)));
  const { by, at, kind, status, content_type: contentType } = head;
  const told = { by, at, status, contentType };
  switch (kind) {
    case "answer":
      return { ...told, kind, body: stored.subarray(end + 1) };
    case "too_long":
      return { ...told, kind };
    case "failure":
      return { ...told, kind, ...textOf(head) };
  }
}

const KINDS: readonly string[] = ["answer", "too_long", "failure"] satisfies StoredResult["kind"][];

function parsed(line: string): Head {
  try {
    const head = JSON.parse(line) as Head;
    if (KINDS.includes(head.kind)) return head;
  } catch {
    // no JSON, or no object
  }
  throw unreadable("the stored result of the call");
}

/** What of a problem document is kept: enough for people, and nothing that may be a program's own. */
const TITLE_CHARS_MAX = 200;
const DETAIL_CHARS_MAX = 1000;

/** The title and the detail of a problem document; undefined if there is none, or it says neither. */
export function problemTextOf(contentType: string | undefined, body: Buffer): ProblemText | undefined {
  if (!/^application\/problem\+json\s*(?:;|$)/i.test(contentType ?? "")) return undefined;
  const document = parseJson(body.toString("utf8"));
  const said = typeof document === "object" && document !== null ? textOf(document) : {};
  return Object.keys(said).length > 0 ? said : undefined;
}

/** What of these members is text, cut, and without control characters. */
export function textOf({ title, detail }: { title?: unknown; detail?: unknown }): ProblemText {
  const short = cut(title, TITLE_CHARS_MAX);
  const long = cut(detail, DETAIL_CHARS_MAX);
  return { ...(short !== undefined && { title: short }), ...(long !== undefined && { detail: long }) };
}

function cut(text: unknown, max: number): string | undefined {
  if (typeof text !== "string") return undefined;
  const clean = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]+/gu, " ").trim();
  // A character outside of the first plane is two units: none is cut in half.
  const short = Array.from(clean.slice(0, 2 * max))
    .slice(0, max)
    .join("")
    .trim();
  return short === "" ? undefined : short;
}

/** A Content-Type that can be a header again; undefined for any other text. */
export function usableContentType(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= 256 && /^[!-~](?:[ -~]*[!-~])?$/.test(text) ? text : undefined;
}
