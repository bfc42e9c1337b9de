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
  /** Ops addresses of gateways, as URLs. */
  urls: readonly string[];
  /** Signs what is delivered. */
  secret: Secret;
  clock: Clock;
};

/** What became of a delivery that a gateway answered. */
export type Answered = {
  /** `refused` is for good: the call has another result, or takes none any more. */
  became: "taken" | "refused";
  url: string;
  status: number;
};

export type Gateways = ReturnType<typeof createGateways>;

const RESULT_TIMEOUT_MS = 10_000;
const PROGRESS_TIMEOUT_MS = 2000;
/** What is told of a gateway's answer that is none of the expected. */
const EXCERPT_CHARS = 200;

const NOTHING = Buffer.alloc(0);
/** 409: another result, or too late. 410: there is no such thing any more. */
const REFUSED_FOR_GOOD = [409, 410];

/** The gateways that take what long jobs answer. Any of them will do; the one that answered last is asked first. */
export function createGateways({ urls, secret, clock }: Options) {
  let first = 0;
  const underWay = new Set<AbortController>();

  type Request = {
    method: "PUT" | "POST";
    path: string;
    body: Buffer;
    headers: Record<string, string>;
    timeoutMs: number;
  };

  async function ask(url: string, { method, path, body, headers, timeoutMs }: Request) {
    const target = new URL(`${url}${path}`);
    const request = { method, path: target.pathname, body, headers };
    const cancel = new AbortController();
    const timer = setTimeout(() => cancel.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    underWay.add(cancel);
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
      underWay.delete(cancel);
    }
  }

  /** Asks one after the other. Throws with what each said if none took it and none refused it for good. */
  async function inTurn(request: Request): Promise<Answered> {
    const failures: string[] = [];
    for (let i = 0; i < urls.length; i++) {
      const at = (first + i) % urls.length;
      const url = urls[at] as string;
      try {
        const { status, text } = await ask(url, request);
        const isTaken = status >= 200 && status < 300;
        if (isTaken || REFUSED_FOR_GOOD.includes(status)) {
          first = at;
          return { became: isTaken ? "taken" : "refused", url, status };
        }
        failures.push(`${url}: ${status} ${cut(text, EXCERPT_CHARS)}`.trim());
      } catch (error) {
        failures.push(`${url}: ${messageOf(error)}`);
      }
    }
    throw new Error(failures.join("; "));
  }

  return {
    deliver(callId: string, { status, contentType, body }: Outgoing): Promise<Answered> {
      return inTurn({
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

    tellProgress(callId: string, json: string): Promise<Answered> {
      return inTurn({
        method: "POST",
        path: deliveryPath(callId, "progress"),
        body: Buffer.from(json),
        headers: { "content-type": "application/json" },
        timeoutMs: PROGRESS_TIMEOUT_MS,
      });
    },

    /** Ends what is under way. */
    close(): void {
      for (const controller of underWay) controller.abort(new Error("the runner has stopped"));
    },
  };
}
