import { type IncomingHttpHeaders, request } from "node:http";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { credentialHeader } from "../../shared/dev/ready-commands.ts";

/** A call that was accepted, and what is needed to offer it again. */
export type AcceptedCall = {
  readonly callId: string;
  readonly jobId: number;
  readonly path: string;
  readonly contentType: string;
  readonly body: string;
};

/** The webhooks that the demo sent, and how they were answered. */
export type WebhookLedger = {
  /** Requests sent to the gateway. */
  sent: number;
  /** Calls that were answered with success, by id. */
  accepted: Map<string, AcceptedCall>;
  /** Success for a delivery that was known. */
  repeats: number;
  /** Success for what is no call: a sender's handshake, or an event that the endpoint drops. */
  notCalls: number;
  /** Anything but success. */
  refused: number;
  /** Failed calls that an operator has replayed. */
  replayed: number;
  /** Calls that the demo itself offered to the runner once more, to see what the runner remembers. */
  askedAgain: number;
};

export function createWebhookLedger(): WebhookLedger {
  return {
    sent: 0,
    accepted: new Map(),
    repeats: 0,
    notCalls: 0,
    refused: 0,
    replayed: 0,
    askedAgain: 0,
  };
}

export type Webhook = {
  endpoint: EndpointToml;
  body: string;
  contentType?: string;
  /** Further headers; they win over the sender's own. */
  headers?: Readonly<Record<string, string>>;
};

/** `callId` is empty unless the webhook became a call. */
export type Answered = Reply & { callId: string };

type NamedCall = Pick<AcceptedCall, "callId" | "jobId">;

export type Sender = {
  /** Sends a webhook with the endpoint's credential, and counts its answer. */
  send(webhook: Webhook): Promise<Answered>;
  /** Sends a webhook whose answer is yet to be counted. */
  post(webhook: Webhook): Promise<Reply>;
  /** Counts an answer. `call` is for one that does not name the call. */
  count(webhook: Webhook, reply: Reply, call?: NamedCall): Answered;
  /** The webhook's call. Throws if the webhook was not accepted. */
  accepted(answered: Answered): AcceptedCall;
};

const JSON_TYPE = "application/json";

/** Sends webhooks as somebody outside would, and counts every answer. */
export function createSender(address: string, ledger: WebhookLedger): Sender {
  function count(webhook: Webhook, reply: Reply, call = callIn(reply)): Answered {
    const { endpoint, body, contentType = JSON_TYPE } = webhook;
    ledger.sent += 1;
    if (!isSuccess(reply)) ledger.refused += 1;
    else if (call === undefined) ledger.notCalls += 1;
    else if (ledger.accepted.has(call.callId)) ledger.repeats += 1;
    else ledger.accepted.set(call.callId, { ...call, path: endpoint.path, contentType, body });
    return { ...reply, callId: call?.callId ?? "" };
  }

  function post({ endpoint, body, contentType = JSON_TYPE, headers }: Webhook): Promise<Reply> {
    const credential = credentialHeader(endpoint, body);
    return httpRequest(address, {
      method: "POST",
      path: endpoint.path,
      headers: {
        "Content-Type": contentType,
        ...(credential && { [credential.name]: credential.value }),
        ...headers,
      },
      body,
    });
  }

  return {
    post,
    count,
    send: async (webhook) => count(webhook, await post(webhook)),
    accepted({ callId, status }) {
      const call = ledger.accepted.get(callId);
      if (call === undefined) throw new Error(`expected: an accepted call; the gateway answers ${status}`);
      return call;
    },
  };
}

function isSuccess({ status }: Reply): boolean {
  return status >= 200 && status < 300;
}

/** The call that an answer names. */
function callIn({ text }: Reply): NamedCall | undefined {
  if (!text.startsWith("{")) return undefined;
  const { call_id: callId, job_id: jobId } = JSON.parse(text) as Record<string, unknown>;
  return callId === undefined ? undefined : { callId: String(callId), jobId: Number(jobId) };
}

export type Reply = { status: number; headers: IncomingHttpHeaders; text: string };

type HttpRequest = {
  method: "GET" | "POST";
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
};

const REQUEST_TIMEOUT_MS = 10_000;

/** One request to `host:port` on a connection of its own. */
export function httpRequest(
  address: string,
  { method, path, headers = {}, body }: HttpRequest,
): Promise<Reply> {
  const url = new URL(path, `http://${address}`);
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, agent: false, signal }, async (res) => {
      try {
        let text = "";
        for await (const chunk of res.setEncoding("utf8")) text += chunk;
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text });
      } catch (error) {
        reject(error);
      }
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
