import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Accept } from "../../shared/gateway/accept.ts";
import { traceparentOf } from "../../shared/http/headers.ts";
import { readBody } from "../../shared/http/read-body.ts";
import { type JobCall, toJobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { decodeBody, readEncoding } from "./body.ts";
import { type BodyProof, checkCredential } from "./credential.ts";
import { readDeliveryId, toCallId } from "./delivery-id.ts";
import type { Endpoint } from "./endpoints.ts";
import { answerAccepted, answerRefused } from "./response.ts";

export type ReceiveDeps = {
  /** Throws what keeps calls from being taken now: start, stop (a drain still takes them), Redis, backpressure. */
  assertOpen: () => void;
  accept: Accept;
  clock: Clock;
  log: Logger;
};

/** One webhook, top to bottom. What can refuse it early refuses it before its body is read. */
export function createReceive(deps: ReceiveDeps) {
  return async function receive(
    req: IncomingMessage,
    res: ServerResponse,
    endpoint: Endpoint,
  ): Promise<void> {
    const startedAt = deps.clock();
    try {
      assertPost(req);
      deps.assertOpen();
      const proof = checkCredential(req, endpoint.config);
      const deliveryId = readDeliveryId(req, endpoint.config);
      const body = await readVerified({ req, res, endpoint, proof });

      const call = toCall({ req, endpoint, deliveryId, body, acceptedAt: deps.clock() });
      const accepted = await deps.accept(call, deliveryId === undefined ? undefined : endpoint);

      answerAccepted(res, call, accepted);
      failpoint("gateway.after_answer");
      deps.log.info("webhook.accepted", {
        callId: call.id,
        path: endpoint.config.path,
        jobId: call.job_id,
        bytes: call.bytes,
        replayed: accepted.replayed,
        ms: deps.clock() - startedAt,
      });
    } catch (thrown) {
      answerRefused(deps, { req, res, endpoint: endpoint.config, thrown, startedAt });
    }
  };
}

function assertPost(req: IncomingMessage): void {
  if (req.method === "POST") return;
  throw new AppError("request.method_not_allowed", { reason: `${req.method}`, publicDetail: "use POST" });
}

type Arriving = {
  req: IncomingMessage;
  res: ServerResponse;
  endpoint: Endpoint;
  proof: BodyProof | undefined;
};

/** The body, proven to be what the credential signed: over the bytes as received, or decoded where so configured. */
async function readVerified({ req, res, endpoint, proof }: Arriving): Promise<Buffer> {
  const encoding = readEncoding(req, endpoint.config);
  const received = await readBody(req, res, endpoint.bodyBytesMax);
  if (proof?.covers === "received") proof.check(received);
  const body =
    encoding === undefined ? received : await decodeBody(received, encoding, endpoint.bodyBytesMax);
  if (proof?.covers === "decoded") proof.check(body);
  return body;
}

type Proven = {
  req: IncomingMessage;
  endpoint: Endpoint;
  deliveryId: string | undefined;
  body: Buffer;
  acceptedAt: number;
};

function toCall({ req, endpoint, deliveryId, body, acceptedAt }: Proven): JobCall {
  const bodySha256 = sha256Hex(body);
  const id = toCallId(endpoint.config, deliveryId, bodySha256);
  return toJobCall({
    id,
    origin: "webhook",
    job_id: endpoint.config.job_id,
    metadata: endpoint.metadataOf(id),
    contentType: req.headers["content-type"],
    body,
    bodySha256,
    accepted_at: acceptedAt,
    traceparent: traceparentOf(req),
  });
}
