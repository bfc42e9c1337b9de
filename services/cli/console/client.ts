import type { z } from "zod";
import { fetch, type Response } from "../../../shared/http/fetch.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isErrorCode } from "../../../shared/platform/errors/codes.ts";
import { isSuccess, reasonOf } from "../http.ts";
import { plain } from "../text.ts";

type Query = Readonly<Record<string, string | number | boolean | undefined>>;
type Asked = { query?: Query; body?: unknown };
type Method = "GET" | "POST" | "DELETE";

/** Asks the console at one URL. Each throws the error that the console tells, with its code, and an error if it does not answer. */
export type ConsoleClient = {
  /** `path` is what follows `/api/v1/`. */
  ask<Answer>(schema: z.ZodType<Answer>, method: Method, path: string, asked?: Asked): Promise<Answer>;
  /** What has no answer but that it is done. */
  tell(method: Method, path: string, asked?: Asked): Promise<void>;
  bytes(path: string): Promise<Buffer>;
};

/** Nobody answers at the console's address. */
export class NoAnswer extends Error {}

/** An answer may be a body of 25 MiB that comes from afar, or a question to a chain. */
const DEADLINE_MS = 120_000;

export function createConsoleClient({ url, token }: { url: URL; token: Secret | undefined }): ConsoleClient {
  const base = new URL(`${url.pathname.replace(/\/*$/, "")}/api/v1/`, url.origin);

  async function exchange(method: Method, path: string, { query = {}, body }: Asked = {}): Promise<Response> {
    const target = new URL(path, base);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) target.searchParams.set(name, String(value));
    const response = await fetch(target, {
      method,
      // A token goes nowhere but where it was meant to go.
      redirect: "error",
      signal: AbortSignal.timeout(DEADLINE_MS),
      headers: {
        Accept: "application/json",
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

  return {
    async ask(schema, method, path, asked) {
      const answer: unknown = await (await exchange(method, path, asked)).body.json();
      const parsed = schema.safeParse(answer);
      if (parsed.success) return parsed.data;
      const [issue] = parsed.error.issues;
      const where = issue === undefined ? "" : `: ${issue.path.join(".")}: ${issue.message}`;
      throw new Error(`the console at ${url.origin} sent an unexpected answer to ${method} ${path}${where}`);
    },
    async tell(method, path, asked) {
      await (await exchange(method, path, asked)).body.dump();
    },
    async bytes(path) {
      return Buffer.from(await (await exchange("GET", path)).body.arrayBuffer());
    },
  };
}

/** The error that a problem document tells of. */
async function refusalOf(response: Response, url: URL): Promise<Error> {
  const problem: unknown = await response.body.json().catch(() => ({}));
  const { code, detail } = problem as { code?: unknown; detail?: unknown };
  if (typeof code === "string" && isErrorCode(code) && typeof detail === "string")
    return AppError.public(code, detail);
  return new Error(plain(`${url.origin} answered ${response.status}; check that it is the URL of a console`));
}
