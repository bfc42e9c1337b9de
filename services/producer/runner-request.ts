import type { Dispatcher } from "undici";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import type { DeliveredCall } from "./inject.ts";

type Options = { basePath: string; secret: Secret | undefined };

/**
 * The request that carries a call to a runner: the body as received, its Content-Type as received, the metadata as
 * headers, `Idempotency-Key` the call id, and a signature over all of them, so that neither job nor caller can be
 * swapped on the way.
 */
export function createToRequest({ basePath, secret }: Options) {
  return function toRequest({ call, body }: DeliveredCall, createdSec: number): Dispatcher.RequestOptions {
    const path = `${basePath}/jobs/${call.job_id}`;
    const covered: Record<string, string> = {
      "content-digest": contentDigest(call.sha256),
      ...(call.content_type !== undefined && { "content-type": call.content_type }),
      "idempotency-key": call.id,
    };
    for (const key in call.metadata) covered[key.toLowerCase()] = call.metadata[key] as string;
    const signature = secret && signMessage(secret, { method: "POST", path, headers: covered }, createdSec);
    const headers: Record<string, string> = { ...covered, ...signature };
    if (call.traceparent !== undefined) headers["traceparent"] = call.traceparent;
    return { method: "POST", path, headers, body };
  };
}
