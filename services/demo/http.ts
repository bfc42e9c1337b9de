export type Reply = { status: number; headers: Headers; text: string };

type HttpRequest = { headers?: Readonly<Record<string, string>>; body?: string };

const TIMEOUT_MS = 60_000;

/** A GET, or with a body a POST, on a connection of its own: the demo kills servers, and no request may go to a dead one. */
export async function httpRequest(url: string, { headers, body }: HttpRequest = {}): Promise<Reply> {
  const answer = await fetch(url, {
    method: body === undefined ? "GET" : "POST",
    headers: { Connection: "close", ...headers },
    body: body ?? null,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

/** The members of a JSON answer; none if it is another text. */
export function jsonOf({ text }: Pick<Reply, "text">): Record<string, unknown> {
  return text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
}
