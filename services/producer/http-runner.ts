import { Pool } from "undici";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Hold } from "../../shared/queue/hold.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { exchange, TimedOut } from "./exchange.ts";
import type { DeliveredCall, Inject } from "./inject.ts";
import { readAnswer } from "./runner-answer.ts";
import { createToRequest } from "./runner-request.ts";

type Options = {
  /** Base URL of the runner. */
  url: string;
  /** Signs each request (RFC 9421); without it requests are unsigned. */
  secret: Secret | undefined;
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** Connections kept alive: as many as calls are injected at once. */
  connections: number;
  clock: Clock;
};

export type HttpInject = { inject: Inject; close(): Promise<void> };

const CONNECT_TIMEOUT_MS = 2000;

/** Injects over HTTP: `POST {url}/jobs/{job_id}` on connections kept alive; redirects are not followed. */
export function createHttpInject({ url, secret, timeoutMs, connections, clock }: Options): HttpInject {
  const base = new URL(url);
  const pool = new Pool(base.origin, {
    connections,
    pipelining: 1,
    connect: { timeout: Math.min(CONNECT_TIMEOUT_MS, timeoutMs) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 4000,
  });
  const toRequest = createToRequest({ basePath: base.pathname.replace(/\/$/, ""), secret });

  async function inject(delivered: DeliveredCall, hold: Hold): Promise<void> {
    const request = toRequest(delivered, Math.floor(clock() / 1000));
    const answer = await exchange(pool, request, { timeoutMs, hold }).catch(noAnswer);
    const error = readAnswer(answer, clock());
    if (error !== undefined) throw error;
  }

  return { inject, close: () => pool.destroy() };
}

function noAnswer(cause: unknown): never {
  const timedOut = cause instanceof TimedOut || /Timeout/.test(cause instanceof Error ? cause.name : "");
  const connecting = cause instanceof Error && cause.name === "ConnectTimeoutError";
  const code = timedOut && !connecting ? "runner.timed_out" : "runner.unreachable";
  throw new AppError(code, { reason: messageOf(cause), cause });
}
