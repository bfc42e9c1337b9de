import { fetch, type Response } from "../../shared/http/fetch.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { plain } from "./text.ts";

export type Post = {
  url: URL;
  headers: Record<string, string>;
  body: Uint8Array | undefined;
};

/** An answer. `json` is the parsed body; it is empty if the body is not a JSON object. */
export type Answer = {
  status: number;
  headers: Headers;
  body: Buffer;
  readonly json: Readonly<Record<string, unknown>>;
};

const ATTEMPT_MS = 60_000;

/**
 * Sends one POST and reads the answer. Rejects a redirect, because the request may contain a payment, which must go
 * only to the given URL. Also rejects at the deadline (unix ms).
 */
export async function post(
  { url, headers, body }: Post,
  deadline: number,
  signal?: AbortSignal,
): Promise<Answer> {
  const late = AbortSignal.timeout(Math.max(1, Math.min(ATTEMPT_MS, deadline - systemClock())));
  const response = await fetch(url, {
    method: "POST",
    headers,
    ...(body !== undefined && { body }),
    redirect: "error",
    signal: signal === undefined ? late : AbortSignal.any([late, signal]),
  });
  return toAnswer(response);
}

/** Sends one GET and reads the answer. Rejects a redirect. Also rejects at the deadline (unix ms). */
export async function get(url: URL, deadline: number, headers: Record<string, string> = {}): Promise<Answer> {
  const signal = AbortSignal.timeout(Math.max(1, deadline - systemClock()));
  return toAnswer(await fetch(url.href, { redirect: "error", signal, headers }));
}

const MIB = 1024 ** 2;
/**
 * Limit on the size of an answer. The longest result fits even as JSON, which may need six characters for one byte. The
 * limit is below the maximum length of a string in Node.
 */
const ANSWER_BYTES_MAX = 64 * MIB;

async function toAnswer(response: Response): Promise<Answer> {
  const body = await readBody(response);
  let json: Answer["json"] | undefined;
  return {
    status: response.status,
    headers: response.headers,
    body,
    /** Parsed only when needed, because a result can be long. */
    get json() {
      json ??= parsed(body.toString("utf8"));
      return json;
    },
  };
}

async function readBody({ body }: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new Error(`the answer is longer than ${ANSWER_BYTES_MAX / MIB} MiB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parsed(text: string): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function isSuccess({ status }: Pick<Answer, "status">): boolean {
  return status >= 200 && status <= 299;
}

/** Reads a text field of an answer, and makes it safe for a terminal. */
export function textIn({ json }: Answer, name: string): string | undefined {
  return typeof json[name] === "string" ? plain(json[name]) : undefined;
}

/** Formats an answer's status, code and detail on one line. */
export function wordsOf({ status, json }: Answer): string {
  const words = [json["code"], json["detail"] ?? json["error"]].filter((part) => typeof part === "string");
  return plain([`${status} ${words[0] ?? ""}`.trimEnd(), ...words.slice(1)].join(": "));
}

/** Says why a request got no answer. */
export function reasonOf(error: unknown): string {
  return plain(messageOf(error));
}
