import type { EndpointToml } from "../../shared/config/webhooks-toml.ts";
import { credentialHeader } from "../../shared/dev/ready-commands.ts";
import { httpRequest, type Reply } from "./http-request.ts";
import type { Tally } from "./tally.ts";

export type Webhook = {
  endpoint: EndpointToml;
  body: string;
  contentType?: string;
  /** Further headers; they win over those that would be sent anyway. */
  headers?: Readonly<Record<string, string>>;
};

export type Answered = Pick<Reply, "status" | "headers" | "text"> & {
  /** Of the accepted call. */
  callId: string;
};

export type Sender = {
  /** Sends a webhook with the endpoint's credential. */
  send(webhook: Webhook): Promise<Answered>;
  /** Counts what another program sent. */
  count(webhook: Webhook, reply: Reply): Answered;
};

/** The demo's part of the outside world: sends webhooks, and counts every answer. */
export function createSender(address: string, tally: Tally): Sender {
  function count({ endpoint, body, contentType }: Webhook, reply: Reply): Answered {
    tally.sent += 1;
    const callId = reply.status === 202 ? String(JSON.parse(reply.text)["call_id"]) : "";
    if (reply.status !== 202) tally.refused += 1;
    else if (tally.accepted.has(callId)) tally.repeats += 1;
    else {
      const { path, job_id: jobId } = endpoint;
      tally.accepted.set(callId, { callId, jobId, path, contentType: contentType ?? JSON_TYPE, body });
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
  };
}

const JSON_TYPE = "application/json";
