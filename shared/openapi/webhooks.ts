import { z } from "zod";
import { CALLBACK_KEYS_PATH } from "../call/callback.ts";
import type { EndpointToml } from "../config/endpoint-toml.ts";
import type { WebhooksToml } from "../config/webhooks-toml.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { ResultProblem } from "./call-answers.ts";
import { callPaths } from "./call-operations.ts";
import {
  type Components,
  headersOf,
  type Json,
  noComponents,
  refusalsOf,
  schemaOf,
  toComponents,
} from "./document.ts";
import { ADDS_A_CALL, COMMON_REFUSALS, READS_A_BODY, READS_REDIS } from "./refusals.ts";

type Hooks = { webhooks: Pick<WebhooksToml, "endpoints">; version: string };

/**
 * The answer to a delivery, unless its sender requires another answer. If no job handles the delivery, or a filter excludes it,
 * it is dropped, and only `status` is set.
 */
const AcceptedAnswer = z
  .object({
    status: z.string(),
    job_id: z.int().optional(),
    call_id: z.string().optional(),
    result_token: z.string().optional(),
    result_url: z.string().optional(),
  })
  .meta({ id: "AcceptedDelivery" });

/**
 * Builds the OpenAPI document of a webhooks gateway. The gateway does not serve the document, because it names every endpoint,
 * and clients should not learn these.
 */
export function toWebhooksOpenApi({ webhooks: { endpoints }, version }: Hooks) {
  const components = noComponents();
  const received = endpoints.map((endpoint, index) => [
    endpoint.path,
    Object.fromEntries(
      methodsOf(endpoint).map((method) => [
        method.toLowerCase(),
        toReceipt(endpoint, `receive_${index + 1}_${method.toLowerCase()}`, components),
      ]),
    ),
  ]);
  const paths = {
    ...Object.fromEntries(received),
    ...callPaths({ name: "webhooks", ...BY_TOKEN }, components),
    [CALLBACK_KEYS_PATH]: { get: callbackKeys(components) },
  };
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Postern webhooks gateway",
      version,
      description: "Verifies deliveries of senders. A delivery that is accepted is a call on disk.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The gateway" }],
    security: [],
    tags: [
      { name: "endpoints", description: "Where senders deliver." },
      { name: "calls", description: "The calls that deliveries have become." },
    ],
    paths,
    components: {
      ...toComponents(components),
      securitySchemes: {
        result_token: { type: "http", scheme: "bearer", description: "The result_token of the answer." },
      },
    },
  };
}

const BY_TOKEN = {
  security: [{ result_token: [] }],
  unauthenticated: ["result.proof_required"],
  unauthenticatedAs: () => ({}),
} as const;

/** The methods of an endpoint. HEAD is left out, because GET includes it. */
function methodsOf({ methods, handshakes }: EndpointToml): string[] {
  const all: readonly string[] = [...methods, ...handshakes.map(({ method }) => method)];
  return [...new Set(all)].filter((method) => method !== "HEAD");
}

const OF_A_DELIVERY: readonly ErrorCode[] = [
  ...[COMMON_REFUSALS, READS_A_BODY, ADDS_A_CALL].flat(),
  ...(["request.address_refused", "request.encoding_broken", "callback.refused"] as const),
  ...(["webhook.credential_rejected", "webhook.delivery_id_invalid", "webhook.metadata_invalid"] as const),
  ...(["webhook.event_unrouted", "webhook.handshake_refused", "webhook.filter_failed"] as const),
  ...(["webhook.keys_unavailable", "webhook.confirmation_failed", "webhook.endpoint_disabled"] as const),
  ...(["call.conflict", "request.method_not_allowed"] as const),
];

function toReceipt(endpoint: EndpointToml, operationId: string, components: Components): Json {
  const { name, path, auth, preset, answer, respond, handshakes } = endpoint;
  const waits = respond === "result";
  const isOurs = answer.body === undefined && answer.content_type === undefined;
  const replayed = headersOf(["Idempotent-Replayed"], components);
  const ours = { "application/json": { schema: schemaOf(AcceptedAnswer, "output", components) } };
  const isOnly = isOurs && !waits && handshakes.length === 0 && answer.status !== 204;
  const codes: ErrorCode[] = [
    ...OF_A_DELIVERY,
    ...(waits ? (["result.gone", "result.call_failed"] as const) : []),
  ];
  return {
    operationId,
    tags: ["endpoints"],
    summary: name ?? `Receive deliveries at ${path}.`,
    description: preset === undefined ? `Verified by \`${auth}\`.` : `Verified as \`${preset}\`.`,
    security: [],
    requestBody: { required: false, content: { "*/*": { schema: {} } } },
    responses: {
      ...(isOnly
        ? { [answer.status]: { description: "The delivery is accepted.", ...replayed, content: ours } }
        : {
            "2XX": {
              description: waits
                ? "The runner's answer, or that the delivery is accepted."
                : "The delivery is accepted, or a handshake is answered.",
              ...headersOf(["Idempotent-Replayed", "Allow"], components),
              content: { "*/*": { schema: {} } },
            },
          }),
      ...refusalsOf(codes, components, (status) =>
        status === 502 || status === 410 ? { schema: ResultProblem, headers: ["Idempotent-Replayed"] } : {},
      ),
    },
  };
}

function callbackKeys(components: Components): Json {
  return {
    ...{ operationId: "getCallbackKeys", tags: ["calls"], security: [] },
    summary: "Show the public keys of callbacks (RFC 7517).",
    responses: {
      "200": {
        description: "A JSON Web Key Set.",
        content: { "application/jwk-set+json": { schema: { type: "object" } } },
      },
      ...refusalsOf([...COMMON_REFUSALS, ...READS_REDIS], components),
    },
  };
}
