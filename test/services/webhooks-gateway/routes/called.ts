import { createResultTokens } from "../../../../shared/call/results/token.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import type { TestWebhooks, WebhooksFixture } from "../../../fixtures/webhooks.ts";
import { type Answer, send } from "../../../support/http.ts";

export const RESULT_SECRET = "a secret of the results of these tests";
/** Paths of three endpoints: one keeps results, one keeps none, and one keeps results of deliveries with an id. */
export const [KEEPING, FORGETTING, NAMED] = ["/hooks/keeping", "/hooks/forgetting", "/hooks/named"];

const ENDPOINTS = [
  { path: KEEPING, job_id: 1, auth: "none", keep_result: true },
  { path: FORGETTING, job_id: 1, auth: "none" },
  { path: NAMED, job_id: 1, auth: "none", keep_result: true, idempotency_header: "X-Delivery-Id" },
];

type More = Omit<Parameters<WebhooksFixture["start"]>[0], "endpoints">;

export function startAskable(webhooks: WebhooksFixture, more: More = {}): Promise<TestWebhooks> {
  return webhooks.start({ endpoints: ENDPOINTS, resultSecrets: [RESULT_SECRET], ...more });
}

/** Delivers a webhook to the endpoint. The id counts only if the endpoint reads one. */
export function deliver({ address }: TestWebhooks, path = NAMED, id = "delivery-1"): Promise<Answer> {
  return send(address, { path, headers: { "X-Delivery-Id": id }, body: "hello" });
}

/** Sends a GET for a path below this call's path, with or without a token. */
export function ask(
  { address }: TestWebhooks,
  callId: unknown,
  { below = "/result", token, method = "GET" }: { below?: string; token?: unknown; method?: string } = {},
): Promise<Answer> {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${String(token)}` };
  return send(address, { method, path: `/webhooks/calls/${String(callId)}${below}`, headers });
}

export const eventsOf = ({ address }: TestWebhooks, callId: unknown) =>
  `http://${address}/webhooks/calls/${String(callId)}/events`;

export const tokenOf = (callId: string) => createResultTokens([new Secret(RESULT_SECRET)]).of(callId);

export const NOBODYS = `c_${"0".repeat(32)}`;
