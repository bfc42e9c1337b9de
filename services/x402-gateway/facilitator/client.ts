import { Pool } from "undici";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import { parseRetryAfter } from "../../../shared/http/headers.ts";
import type { Clock } from "../../../shared/time/clock.ts";

const CONNECT_TIMEOUT_MS = 3000;
/** A longer answer is not read on. */
const ANSWER_BYTES_MAX = 64 * 1024;

/** What a facilitator said, or that it said nothing that can be read. */
export type FacilitatorAnswer =
  | { kind: "json"; status: number; value: Readonly<Record<string, unknown>> }
  | { kind: "none"; reason: string; retryAfterMs?: number };

export type FacilitatorOperation = "verify" | "settle" | "supported";

export type FacilitatorClient = {
  /** One exchange, never repeated, within the deadline from first to last byte; never rejects. */
  ask(
    operation: FacilitatorOperation,
    body: string | undefined,
    timeoutMs: number,
  ): Promise<FacilitatorAnswer>;
  close(): Promise<void>;
};

type Options = {
  url: string;
  /** Sent with every request, by header name. */
  headers: Readonly<Record<string, Secret>>;
  clock: Clock;
};

/**
 * Talks to one facilitator (x402, facilitator interface) on connections kept alive, as many as there are exchanges under
 * way: none waits for another's to end. Redirects are not followed.
 */
export function createFacilitatorClient({ url, headers, clock }: Options): FacilitatorClient {
  const base = new URL(url);
  const pool = new Pool(base.origin, { pipelining: 1, connect: { timeout: CONNECT_TIMEOUT_MS } });
  const basePath = base.pathname.replace(/\/$/, "");
  const own = Object.entries(headers).map(([name, secret]): [string, string] => [name, secret.reveal()]);
  const sent = { ...Object.fromEntries(own), accept: "application/json", "content-type": "application/json" };

  async function exchange(operation: FacilitatorOperation, body: string | undefined, signal: AbortSignal) {
    const method = body === undefined ? "GET" : "POST";
    const path = `${basePath}/${operation}`;
    const response = await pool.request({ method, path, headers: sent, body: body ?? null, signal });
    const text = await readText(response.body);
    const retryAfter = [response.headers["retry-after"]].flat()[0];
    return read(response.statusCode, retryAfter, text);
  }

  function read(status: number, retryAfter: string | undefined, text: string | undefined): FacilitatorAnswer {
    if (text === undefined) return { kind: "none", reason: `its answer is over ${ANSWER_BYTES_MAX} bytes` };
    const retryAfterMs = parseRetryAfter(retryAfter, clock());
    const failed = { kind: "none" as const, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    if (isNoAnswer(status)) return { ...failed, reason: `status ${status}` };
    const value = objectIn(text);
    return value
      ? { kind: "json", status, value }
      : { ...failed, reason: `status ${status}, no JSON object` };
  }

  return {
    async ask(operation, body, timeoutMs) {
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        return await exchange(operation, body, signal);
      } catch (error) {
        const reason = signal.aborted ? `no answer within ${timeoutMs} ms` : messageOf(error);
        return { kind: "none", reason };
      }
    },
    close: () => pool.destroy(),
  };
}

/** Redirects, "later" and the server's own failures: whatever their bodies say, the question was not answered. */
function isNoAnswer(status: number): boolean {
  return (status >= 300 && status < 400) || [408, 425, 429].includes(status) || status >= 500;
}

/** The body, or undefined where it is over the limit; its connection is then given up. */
async function readText(body: AsyncIterable<Buffer>): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) return undefined; // leaving the loop destroys the stream
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
