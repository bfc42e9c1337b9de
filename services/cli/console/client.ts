import { OPERATIONS, type Operations } from "../../../shared/console/contract/contract.ts";
import { type File, type Operation, partsOf, type Work } from "../../../shared/console/contract/operation.ts";
import { fetch, type Response } from "../../../shared/http/fetch.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isErrorCode } from "../../../shared/platform/errors/codes.ts";
import { fillPath } from "../../../shared/platform/text/fill-path.ts";
import { isSuccess, reasonOf } from "../http.ts";
import { plain } from "../text.ts";

/** Thrown if the console does not answer a request, for example because it is restarting. */
export class NoAnswer extends Error {}

/**
 * Deadline for an answer of the console. It is long: the answer may be a body of 25 MiB over a slow network, or the
 * console may have to read a chain first.
 */
const DEADLINE_MS = 120_000;

/** The console's URL, and the token for it. */
export type ConsoleTarget = { url: URL; token: Secret | undefined };

/**
 * Creates a client that performs operations through the console's HTTP API instead of in Redis. If the console answers
 * with an error, the operation throws an error with the same code and detail.
 */
export function createConsoleClient(target: ConsoleTarget): Operations {
  const { url } = target;

  async function sendRequest(
    operation: Operation,
    asked: object = {},
    { signal }: Work = {},
  ): Promise<unknown> {
    const deadline = AbortSignal.timeout(DEADLINE_MS);
    const until = signal === undefined ? deadline : AbortSignal.any([deadline, signal]);
    const response = await exchange(target, operation, asked, until);
    if (operation.file !== undefined) return toFile(response);
    if (operation.answer === undefined) return response.body.dump();
    const parsed = operation.answer.safeParse(await response.body.json());
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = issue === undefined ? "" : `: ${issue.path.join(".")}: ${issue.message}`;
    const { method, path } = operation;
    throw new Error(`the console at ${url.origin} sent an unexpected answer to ${method} ${path}${where}`);
  }

  const client = Object.entries(OPERATIONS).map(([name, operation]) => [
    name,
    (asked?: object, work?: Work) => sendRequest(operation, asked, work),
  ]);
  return Object.fromEntries(client) as Operations;
}

/** Opens a stream of server-sent events. Throws the same errors as the operations. */
export async function openConsoleStream(
  target: ConsoleTarget,
  operation: Operation,
  signal: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  return (await exchange(target, operation, {}, signal)).body;
}

async function exchange(
  { url, token }: ConsoleTarget,
  operation: Operation,
  asked: object,
  signal: AbortSignal,
): Promise<Response> {
  const { query, params, body } = partsOf(operation, asked as Readonly<Record<string, unknown>>);
  const base = `${url.origin}${url.pathname.replace(/\/*$/, "")}`;
  const target = new URL(base + fillPath(operation.path, params).path);
  for (const [name, value] of Object.entries(query)) target.searchParams.set(name, String(value));
  const response = await fetch(target, {
    method: operation.method,
    // Redirects are not followed, because only the configured console may get the token.
    redirect: "error",
    signal,
    headers: {
      Accept: operation.stream ?? "application/json",
      ...(token !== undefined && { Authorization: `Bearer ${token.reveal()}` }),
      ...(body !== undefined && { "Content-Type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw new NoAnswer(`the console at ${url.origin} does not answer: ${reasonOf(cause)}`, { cause });
  });
  if (isSuccess(response)) return response;
  throw await refusalOf(response, url);
}

function toFile(response: Response): File {
  const name = /filename="([^"]*)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "";
  return { name, pieces: response.body };
}

/**
 * Makes an error from the console's error answer, which is a problem document (RFC 9457). If it is not, the URL may be
 * wrong, and the error says so.
 */
async function refusalOf(response: Response, url: URL): Promise<Error> {
  const problem: unknown = await response.body.json().catch(() => ({}));
  const { code, detail } = problem as { code?: unknown; detail?: unknown };
  if (typeof code === "string" && isErrorCode(code) && typeof detail === "string")
    return AppError.public(code, detail);
  return new Error(plain(`${url.origin} answered ${response.status}; check that it is the URL of a console`));
}
