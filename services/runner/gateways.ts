import {
  deliveryPath,
  RESULT_BODY,
  RESULT_STATUS,
  signDelivery,
  TOO_LONG,
} from "../../shared/call/results/delivery.ts";
import { fetch } from "../../shared/http/fetch.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Outgoing } from "./delivery-store.ts";

type Options = {
  /** URLs of the gateways' ops addresses, which are their private addresses. */
  urls: readonly string[];
  /** Secret that signs deliveries. */
  secret: Secret;
  clock: Clock;
};

/** Outcome of a delivery that a gateway answered. */
export type DeliveryOutcome = {
  /**
   * `taken`: the gateway has accepted the result. `refused`: no further attempt can succeed, because the call has another
   * result, no longer accepts one, or is gone.
   */
  outcome: "taken" | "refused";
  url: string;
  status: number;
};

export type Gateways = ReturnType<typeof createGateways>;

const RESULT_TIMEOUT_MS = 10_000;
const PROGRESS_TIMEOUT_MS = 2000;
/** Maximum length of the excerpt from an unexpected answer that an error shows. */
const EXCERPT_CHARS = 200;

const NOTHING = Buffer.alloc(0);
/**
 * Statuses of a gateway's answer after which no further attempt can succeed. 409: the call has another result, or no longer
 * accepts one. 410: the call is gone.
 */
const REFUSED_FOR_GOOD = [409, 410];

/**
 * Creates functions that send results and progress of long jobs to the gateways. Any gateway can accept them, so the one that
 * answered last is tried first.
 */
export function createGateways({ urls, secret, clock }: Options) {
  let first = 0;
  const inFlight = new Set<AbortController>();

  type Request = {
    method: "PUT" | "POST";
    path: string;
    body: Buffer;
    headers: Record<string, string>;
    timeoutMs: number;
  };

  async function send(url: string, { method, path, body, headers, timeoutMs }: Request) {
    const target = new URL(`${url}${path}`);
    const request = { method, path: target.pathname, body, headers };
    const cancel = new AbortController();
    const timer = setTimeout(() => cancel.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    inFlight.add(cancel);
    try {
      const response = await fetch(target, {
        method,
        headers: signDelivery(secret, request, Math.floor(clock() / 1000)),
        body,
        redirect: "manual",
        signal: cancel.signal,
      });
      return { status: response.status, text: await response.body.text() };
    } finally {
      clearTimeout(timer);
      inFlight.delete(cancel);
    }
  }

  /**
   * Tries the gateways one after the other, until one accepts the request or refuses it for good. If none does, throws an
   * error with all their answers.
   */
  async function tryEach(request: Request): Promise<DeliveryOutcome> {
    const failures: string[] = [];
    for (let i = 0; i < urls.length; i++) {
      const at = (first + i) % urls.length;
      const url = urls[at] as string;
      try {
        const { status, text } = await send(url, request);
        const isTaken = status >= 200 && status < 300;
        if (isTaken || REFUSED_FOR_GOOD.includes(status)) {
          first = at;
          return { outcome: isTaken ? "taken" : "refused", url, status };
        }
        failures.push(`${url}: ${status} ${cut(text, EXCERPT_CHARS)}`.trim());
      } catch (error) {
        failures.push(`${url}: ${messageOf(error)}`);
      }
    }
    throw new Error(failures.join("; "));
  }

  return {
    deliver(callId: string, { status, contentType, body }: Outgoing): Promise<DeliveryOutcome> {
      return tryEach({
        method: "PUT",
        path: deliveryPath(callId, "result"),
        body: body === "too long" ? NOTHING : body,
        headers: {
          [RESULT_STATUS]: String(status),
          ...(body === "too long" && { [RESULT_BODY]: TOO_LONG }),
          ...(contentType !== undefined && { "content-type": contentType }),
        },
        timeoutMs: RESULT_TIMEOUT_MS,
      });
    },

    sendProgress(callId: string, json: string): Promise<DeliveryOutcome> {
      return tryEach({
        method: "POST",
        path: deliveryPath(callId, "progress"),
        body: Buffer.from(json),
        headers: { "content-type": "application/json" },
        timeoutMs: PROGRESS_TIMEOUT_MS,
      });
    },

    /** Aborts the requests in flight. */
    close(): void {
      for (const controller of inFlight) controller.abort(new Error("the runner has stopped"));
    },
  };
}
