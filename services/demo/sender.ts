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
  /** Calls that were answered with 202, by id. */
  accepted: Map<string, AcceptedCall>;
  /** 202 for a delivery that was known. */
  repeats: number;
  /** Anything but 202. */
  refused: number;
  /** Failed calls that an operator has replayed. */
  replayed: number;
  /** Calls that the demo itself offered to the runner once more, to see what the runner remembers. */
  askedAgain: number;
};

export function createWebhookLedger(): WebhookLedger {
  return { sent: 0, accepted: new Map(), repeats: 0, refused: 0, replayed: 0, askedAgain: 0 };
}

export type Webhook = {
  endpoint: EndpointToml;
  body: string;
  contentType?: string;
  /** Further headers; they win over the sender's own. */
  headers?: Readonly<Record<string, string>>;
};

/** `callId` is empty unless the webhook was accepted. */
export type Answered = Reply & { callId: string };

export type Sender = {
  /** Sends a webhook with the endpoint's credential. */
  send(webhook: Webhook): Promise<Answered>;
  /** Counts a webhook that another program sent. */
  count(webhook: Webhook, reply: Reply): Answered;
  /** The webhook's call. Throws if the webhook was not accepted. */
  accepted(answered: Answered): AcceptedCall;
};

const JSON_TYPE = "application/json";

/** Sends webhooks as somebody outside would, and counts every answer. */
export function createSender(address: string, ledger: WebhookLedger): Sender {
  function count({ endpoint, body, contentType = JSON_TYPE }: Webhook, reply: Reply): Answered {
    ledger.sent += 1;
    const callId = reply.status === 202 ? String(JSON.parse(reply.text)["call_id"]) : "";
    if (reply.status !== 202) ledger.refused += 1;
    else if (ledger.accepted.has(callId)) ledger.repeats += 1;
    else {
      const { path } = endpoint;
      const jobId = Number(JSON.parse(reply.text)["job_id"]);
      ledger.accepted.set(callId, { callId, jobId, path, contentType, body });
    }
    return { ...reply, callId };
  }

  return {
    count,
    async send(webhook) {
      const { endpoint, body, contentType = JSON_TYPE, headers } = webhook;
      const credential = credentialHeader(endpoint, body);
      const reply = await httpRequest(address, {
        method: "POST",
        path: endpoint.path,
        headers: {
          "Content-Type": contentType,
          ...(credential && { [credential.name]: credential.value }),
          ...headers,
        },
        body,
      });
      return count(webhook, reply);
    },
    accepted({ callId, status }) {
      const call = ledger.accepted.get(callId);
      if (call === undefined) throw new Error(`expected: an accepted call; the gateway answers ${status}`);
      return call;
    },
  };
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
