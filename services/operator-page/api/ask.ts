import type { Query } from "../route.ts";

/** An answer of the service that is none of what was asked for, or that did not come. */
export class Refused extends Error {
  override readonly name = "Refused";
  /** 0 if there was no answer. */
  readonly status: number;
  readonly code: string;
  /** For people: what is wrong, and what to do about it. */
  readonly detail: string;

  constructor(
    code: string,
    { status, detail, ...rest }: { status: number; detail: string; cause?: unknown },
  ) {
    super(`${code}: ${detail}`, rest);
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

export function toRefused(thrown: unknown): Refused {
  return thrown instanceof Refused
    ? thrown
    : new Refused("unexpected", { status: 0, detail: String(thrown) });
}

type Ask = { query?: Query; body?: unknown; signal?: AbortSignal | undefined };

/** Told when an answer says that nobody is signed in (any more). */
let onSignedOut: () => void = () => {};
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** Asks the service that has sent the page; `path` has no slash at its start. Throws `Refused`. */
export async function ask<Answer>(
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: string,
  { query = {}, body, signal }: Ask = {},
): Promise<Answer> {
  const response = await exchange(urlOf(path, query), {
    method,
    signal: signal ?? null,
    credentials: "same-origin",
    // A form of another site cannot set this header, nor the type of the body.
    headers: {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as Answer;
  const refused = await refusalOf(response);
  if (refused.status === 401) onSignedOut();
  throw refused;
}

/** The bytes of a GET, whatever they are. */
export async function askBytes(path: string): Promise<Uint8Array> {
  const response = await exchange(urlOf(path), { credentials: "same-origin" });
  if (response.ok) return new Uint8Array(await response.arrayBuffer());
  throw await refusalOf(response);
}

export function urlOf(path: string, query: Query = {}): URL {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

async function exchange(url: URL, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const detail = "The operator service does not answer.";
    throw new Refused("unreachable", { status: 0, detail, cause: error });
  }
}

async function refusalOf(response: Response): Promise<Refused> {
  const { status, statusText } = response;
  try {
    const { code, detail, title } = (await response.json()) as Record<string, unknown>;
    return new Refused(String(code ?? status), { status, detail: String(detail ?? title ?? statusText) });
  } catch {
    return new Refused(String(status), { status, detail: statusText || "The answer cannot be read." });
  }
}
