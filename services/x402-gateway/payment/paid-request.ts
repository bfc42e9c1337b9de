import type { IncomingMessage, ServerResponse } from "node:http";
import { type JobIds, jobKey } from "../../../shared/call/job-ids.ts";
import { hashBody, readBody } from "../../../shared/http/body.ts";
import type { BodyBudget, BodyLease } from "../../../shared/http/body-budget.ts";
import { hasInputEnded } from "../../../shared/http/input-end.ts";
import type { Admission } from "../../../shared/ingress/admission.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import type { Catalog } from "../offer/catalog.ts";
import { identifyPayment, readPayment, type SignedPayment } from "./header.ts";

/** A request with a payment. */
export type PaidRequest = {
  req: IncomingMessage;
  ids: JobIds;
  signed: SignedPayment;
  /** The rate-limit key of the client's address. */
  clientKey: string;
  /** Share of the memory budget for bodies that this request's body uses. */
  lease: BodyLease;
  /** Reads the body on its first use, and refuses a body over `limitBytes`. Later uses return the same bytes. */
  readBody: (limitBytes: number) => Promise<Buffer>;
  /** Hash of the body. The bytes are not kept, unless `readBody` was called before. */
  bodySha256: (limitBytes: number) => Promise<string>;
  /**
   * Functions that each refund one verification or contract call of this request to the allowance that it used up. Calling a
   * function twice refunds only once.
   */
  verificationRefunds: (() => void)[];
  /** Time from the claim until Redis confirmed the call, in ms with one decimal. */
  addMs?: number;
  /** Frees the body and its memory. Code that called `read` must call this in the end. */
  release: () => void;
  /** Whether the client has ended its side of the connection. The request then does not wait for an unknown outcome. */
  isGone: () => boolean;
};

/** Returns the rate-limit key of the client's address (`addressKey`). */
export type ClientKeyOf = (req: IncomingMessage) => string;

type Deps = { catalog: Catalog; admission: Admission; bodies: BodyBudget; clientKeyOf: ClientKeyOf };

/** Reads requests with a payment. */
export class PaidRequests {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Reads a request's payment and recovers its signer. The body stays unread. A payment that cannot be read cannot be a repeat of
   * a known one. So if the job is not for sale, or the queue accepts no calls of it, the request is refused for that reason.
   */
  read(req: IncomingMessage, res: ServerResponse, ids: JobIds): PaidRequest {
    const { bodies, clientKeyOf } = this.#deps;
    const signed = this.#readSigned(req, ids);
    const lease = bodies.lease(req);
    let body: Promise<Buffer> | undefined;
    return {
      req,
      ids,
      signed,
      clientKey: clientKeyOf(req),
      lease,
      verificationRefunds: [],
      readBody(limitBytes) {
        body ??= readBody(req, res, limitBytes, { lease });
        return body;
      },
      async bodySha256(limitBytes) {
        return body === undefined ? hashBody(req, res, limitBytes) : sha256Hex(await body);
      },
      release() {
        body = undefined;
        lease.release();
      },
      isGone: () => hasInputEnded(req),
    };
  }

  #readSigned(req: IncomingMessage, ids: JobIds): SignedPayment {
    const { catalog, admission } = this.#deps;
    try {
      return identifyPayment(readPayment(req), [...catalog.tokens, ...catalog.removedTokens]);
    } catch (refusal) {
      catalog.get(ids);
      admission.assertOpen(jobKey(ids));
      throw refusal;
    }
  }
}
