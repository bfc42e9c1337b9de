import { parseJson } from "../../platform/text/parse-json.ts";
import { unreadable } from "../../redis/unreadable.ts";

/*
 * The result of a call: its runner's answer, or a later delivery. It is stored as one line of JSON and the bytes of the body.
 *
 *   answer     A 2xx answer with its whole body.
 *   too_long   A 2xx answer without its body, which exceeds the size limit.
 *   failure    A delivery by the runner of a long job, which says that the call failed for good. It has no body.
 *
 * If Postern itself failed a call, the record has the reason, and there is no stored result (shared/queue/protocol.ts).
 */

/** Limits on the time and the size of kept results. */
export type ResultLimits = {
  /** Retention time of a result. If memory is short, it is evicted earlier. */
  resultMs: number;
  /** Maximum size of a kept body. If it is longer, only the status and the type are stored, as `too_long`. */
  resultBytesMax: number;
  /** Maximum size of all results together. The oldest are evicted first. */
  bytesMax: number;
};

/** Source of a result: the answer to the injection, or a later delivery. */
type By = "answer" | "delivery";

type ResultMeta = {
  status: number;
  contentType: string | undefined;
  /** Time of arrival, unix ms. */
  at: number;
  by: By;
};

export type StoredResult =
  | (ResultMeta & { kind: "answer"; body: Buffer })
  | (ResultMeta & { kind: "too_long" })
  | (ResultMeta & { kind: "failure" } & ProblemText);

/** Title and detail of a problem document (RFC 9457). */
export type ProblemText = { title?: string; detail?: string };

/**
 * The first line of a stored result. `by`, `at` and `kind` must come first, because keep-result.lua matches the start of the
 * line (`deliveredHead`).
 */
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

/** Decodes a stored result. Throws `record.unreadable` if it is invalid. */
export function decodeResult(stored: Buffer): StoredResult {
  const end = stored.indexOf(LINE_FEED);
  const head = parsed(stored.toString("utf8", 0, Math.max(0, end)));
  const { by, at, kind, status, content_type: contentType } = head;
  const common = { by, at, status, contentType };
  switch (kind) {
    case "answer":
      return { ...common, kind, body: stored.subarray(end + 1) };
    case "too_long":
      return { ...common, kind };
    case "failure":
      return { ...common, kind, ...textOf(head) };
  }
}

const KINDS: readonly string[] = ["answer", "too_long", "failure"] satisfies StoredResult["kind"][];

function parsed(line: string): Head {
  try {
    const head = JSON.parse(line) as Head;
    if (KINDS.includes(head.kind)) return head;
  } catch {
    // The line is not JSON, or is `null`.
  }
  throw unreadable("the stored result of the call");
}

/**
 * Limits on the kept texts of a problem document. Other members are not kept, because they may be private to the runner's
 * program.
 */
const TITLE_CHARS_MAX = 200;
const DETAIL_CHARS_MAX = 1000;

/**
 * Returns the title and the detail of a problem document; undefined if the body is not a problem document, or has
 * neither.
 */
export function problemTextOf(contentType: string | undefined, body: Buffer): ProblemText | undefined {
  if (!/^application\/problem\+json\s*(?:;|$)/i.test(contentType ?? "")) return undefined;
  const document = parseJson(body.toString("utf8"));
  const said = typeof document === "object" && document !== null ? textOf(document) : {};
  return Object.keys(said).length > 0 ? said : undefined;
}

/** Returns the title and the detail that are texts, shortened and without control characters. */
export function textOf({ title, detail }: { title?: unknown; detail?: unknown }): ProblemText {
  const short = cut(title, TITLE_CHARS_MAX);
  const long = cut(detail, DETAIL_CHARS_MAX);
  return { ...(short !== undefined && { title: short }), ...(long !== undefined && { detail: long }) };
}

function cut(text: unknown, max: number): string | undefined {
  if (typeof text !== "string") return undefined;
  const clean = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]+/gu, " ").trim();
  // Cuts the text between characters. A character may have two UTF-16 units, which must stay together.
  const short = Array.from(clean.slice(0, 2 * max))
    .slice(0, max)
    .join("")
    .trim();
  return short === "" ? undefined : short;
}

/** Returns a Content-Type that is valid as a header; undefined for any other text. */
export function usableContentType(text: string | undefined): string | undefined {
  return text !== undefined && text.length <= 256 && /^[!-~](?:[ -~]*[!-~])?$/.test(text) ? text : undefined;
}
