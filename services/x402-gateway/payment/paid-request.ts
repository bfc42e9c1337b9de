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
  /** Counts the body. */
  lease: BodyLease;
  /** Reads the body when it is first called, under the limit of that call; later calls get the same bytes. */
  readBody: (limitBytes: number) => Promise<Buffer>;
  /** The hash of the body. If `readBody` was not called before, the bytes are gone then. */
  bodySha256: (limitBytes: number) => Promise<string>;
  /** Each gives back a verify or a contract check that this request has taken from an allowance. Twice does nothing. */
  verifiesTaken: (() => void)[];
  /** Time of the claim, once Redis has confirmed that it holds the call, in ms with one decimal. */
  addMs?: number;
  /** Drops the body. The reader of the request must call it in the end. */
  release: () => void;
  /** Whether the client has ended its side: nothing is waited for any longer. */
  isGone: () => boolean;
};

/** The rate-limit key of the address of a request's client (`addressKey`). */
export type ClientKeyOf = (req: IncomingMessage) => string;

type Deps = { catalog: Catalog; admission: Admission; bodies: BodyBudget; clientKeyOf: ClientKeyOf };

/** Reads requests with a payment. */
export class PaidRequests {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Reads the payment of a request, and who signed it; the body stays unread. A payment that cannot be read has no answer of
   * its own to look for, so the job, its policy and the limits refuse it first.
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
      verifiesTaken: [],
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
